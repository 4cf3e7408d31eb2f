"""How far apart are machines, and how far apart the repetitions on one? Each session of a bundle is a machine's.

python docs/evidence/gpu/scripts/between_machines.py docs/evidence/gpu/between-machines-resnet50.zip...
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict

from scalecurve.bundle.open import Bundle, open_bundles
from scalecurve_api.record.rank import WindowKind

Sessions = dict[tuple[int, str, str], list[float]]


def rates(bundle: Bundle) -> Sessions:
    """Samples a second of each valid trial, by session, card and its uuid."""
    found: Sessions = defaultdict(list)
    for trial in bundle.trials:
        if trial.good and trial.record:
            place = trial.record.topology[0]
            items = sum(window.samples for window in trial.record.windows if window.kind is WindowKind.train)
            seconds = sum(window.wall_ns for window in trial.record.windows if window.kind is WindowKind.train) / 1e9
            found[trial.spec.session + 1, place.device_name, place.device].append(items / seconds)
    return found


def spread(values: list[list[float]]) -> tuple[float, float]:
    """Standard deviation of the logarithms of the sessions' geometric means, and the pooled one within a session."""
    logs = [[math.log(value) for value in each] for each in values]
    between = statistics.stdev(statistics.fmean(each) for each in logs)
    within = math.sqrt(statistics.fmean(statistics.variance(each) for each in logs))
    return between, within


def show(bundle: Bundle) -> None:
    print(bundle.label)
    sessions = rates(bundle)
    by_card: dict[str, list[list[float]]] = defaultdict(list)
    for (session, card, uuid), values in sorted(sessions.items()):
        by_card[card].append(values)
        cv = statistics.stdev(values) / statistics.fmean(values)
        print(
            f"  session {session}: {card} {uuid}: {statistics.fmean(values):,.1f} samples/s, "
            f"within {cv:.2%} ({len(values)} trials: {' '.join(f'{value:,.1f}' for value in values)})"
        )
    for card, machines in by_card.items():
        if len(machines) > 1:
            between, within = spread(machines)
            means = [statistics.fmean(each) for each in machines]
            print(
                f"  {card}: {len(machines)} machines: between {between:.2%} (standard deviation of log means), "
                f"within {within:.2%} (pooled), fastest over slowest {max(means) / min(means) - 1:.2%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="+")
    for bundle in open_bundles(parser.parse_args().bundles):
        show(bundle)


if __name__ == "__main__":
    main()
