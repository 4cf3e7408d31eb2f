"""Does an interval hold the value of a session that it has not seen?

    python docs/evidence/gpu/scripts/left_out_sessions.py docs/evidence/h200/sessions.zip

Each session of the bundle is left out in turn. The rest, all together and each session alone, gives an interval of each
point's throughput and efficiency, which is held against the value of the session that was left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

from scalecurve.bundle.open import Bundle, open_bundles
from scalecurve.curves.compute import scaling
from scalecurve.statistics.estimate import Estimate

Key = tuple[str, int, str]


def estimates(bundle: Bundle, sessions: Sequence[int]) -> dict[Key, Estimate]:
    """By (series, workers, quantity), from the trials of these sessions alone."""
    kept = tuple(trial for trial in bundle.trials if trial.spec.session in sessions)
    found: dict[Key, Estimate] = {}
    for series in scaling([replace(bundle, trials=kept)]).series:
        for point in series.points:
            values = {"throughput": point.throughput, "efficiency": point.efficiency}
            for quantity, value in values.items():
                if value is not None and not (quantity == "efficiency" and point.workers == series.baseline):
                    found[series.name, point.workers, quantity] = value
    return found


def held(seen: dict[Key, Estimate], unseen: dict[Key, Estimate]) -> Iterator[tuple[Key, bool]]:
    for key, value in unseen.items():
        estimate = seen[key]
        if estimate.low is not None and estimate.high is not None:
            yield key, estimate.low <= value.value <= estimate.high


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bundle")
    (bundle,) = open_bundles([arguments.parse_args().bundle])
    sessions = sorted({trial.spec.session for trial in bundle.trials})
    together, alone = [], []
    for left_out in sessions:
        unseen, others = estimates(bundle, [left_out]), [each for each in sessions if each != left_out]
        together += [(left_out, *each) for each in held(estimates(bundle, others), unseen)]
        alone += [(left_out, *each) for other in others for each in held(estimates(bundle, [other]), unseen)]
    for name, cases in ((f"the other {len(sessions) - 1} sessions", together), ("one other session", alone)):
        print(f"from {name}: {sum(holds for *_, holds in cases)} of {len(cases)} held")
        for left_out, (series, workers, quantity), holds in cases:
            if not holds:
                print(f"  session {left_out + 1}: {quantity} of {series} at {workers}")


if __name__ == "__main__":
    main()
