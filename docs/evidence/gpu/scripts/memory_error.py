"""Peak memory of one worker, predicted without a GPU and held against what trials measured.

    python docs/evidence/gpu/scripts/memory_error.py predict docs/evidence/gpu/experiments/memory/*.yaml --out predicted.json
    python docs/evidence/gpu/scripts/memory_error.py score predicted.json BUNDLE...

Two predictions: the estimate that `plan` prints, and the highest point of the step as the worker's package records it
without a device. The first is unknown where activations are not known; neither knows of compile.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scalecurve.bundle.open import open_bundles
from scalecurve.checks.validation import validate
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.memory import GB
from scalecurve_api.validation.fits import memory_at
from scalecurve_models.projection.projection import record_steps

BAR = 0.10


@dataclass(frozen=True)
class Predicted:
    """Bytes; ``refused`` tells why a step could not be recorded."""

    experiment: str
    series: str
    estimate: float | None
    recorded: int | None
    refused: str = ""


def predict(files: Sequence[Path]) -> list[Predicted]:
    """One point of each series of the experiments."""
    out: list[Predicted] = []
    for checked in validate(files):
        for experiment in checked.experiments:
            trials = {trial.point.name: trial for trial in make_plan(experiment).trials}
            steps = record_steps(list(trials.values()))
            for trial, step in zip(trials.values(), steps, strict=True):
                memory = memory_at(experiment.spec, trial.point)
                known = memory is not None and memory.activations is not None
                refused, peak = (step, None) if isinstance(step, str) else ("", step.memory.peak)
                estimate = memory.total if memory is not None and known else None
                out.append(Predicted(experiment.metadata.name, trial.point.series, estimate, peak, refused))
    return out


def measured(paths: Sequence[str]) -> dict[tuple[str, str], int]:
    """The most that any valid trial of a series took, by experiment and series."""
    peaks: dict[tuple[str, str], int] = {}
    for bundle in open_bundles(paths):
        for trial in bundle.trials:
            summary = trial.record.summary if trial.good and trial.record else None
            if summary is not None and summary.peak_memory_bytes is not None:
                key = trial.spec.experiment, trial.spec.point.series
                peaks[key] = max(peaks.get(key, 0), summary.peak_memory_bytes)
    return peaks


def table(predictions: Sequence[Predicted], peaks: dict[tuple[str, str], int]) -> str:
    lines = ["| experiment | series | measured, GB | estimate | error | recorded step | error |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    within = {"estimate": 0, "recorded": 0}
    for each in sorted(predictions, key=lambda one: (one.experiment, one.series)):
        peak = peaks.get((each.experiment, each.series))
        cells = [f"{peak / GB:.2f}" if peak else "not measured"]
        for name in within:
            value = getattr(each, name)
            cells.append("not known" if value is None else f"{value / GB:.2f}")
            error = None if value is None or not peak else value / peak - 1
            cells.append("" if error is None else f"{error:+.1%}")
            within[name] += error is not None and abs(error) <= BAR
        lines.append(f"| {each.experiment} | {each.series} | {' | '.join(cells)} |")
    sums = ", ".join(f"{name} {count} of {len(predictions)}" for name, count in within.items())
    return "\n".join([*lines, f"within {BAR:.0%}: {sums}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    before = verbs.add_parser("predict")
    before.add_argument("experiments", nargs="+", type=Path)
    before.add_argument("--out", type=Path, required=True)
    after = verbs.add_parser("score")
    after.add_argument("predicted", type=Path)
    after.add_argument("bundles", nargs="+")
    arguments = parser.parse_args()
    if arguments.verb == "predict":
        predictions = predict(arguments.experiments)
        arguments.out.write_text(json.dumps([asdict(each) for each in predictions], indent=1) + "\n")
        print(table(predictions, {}))
        return
    predictions = [Predicted(**each) for each in json.loads(arguments.predicted.read_text())]
    print(table(predictions, measured(arguments.bundles)))


if __name__ == "__main__":
    main()
