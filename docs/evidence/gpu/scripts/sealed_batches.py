"""One worker's step at batches that were not measured, recorded in the bundle of the run before it begins.

    python docs/evidence/gpu/scripts/sealed_batches.py EXPERIMENT --overlay FILE --measured BUNDLE --record BUNDLE
    scalecurve run EXPERIMENT --bundle BUNDLE --resume && scalecurve predict BUNDLE --score

`predict` itself refuses a batch outside those that were measured. Three rules, each from all measured batches:

    linear    a line through the least and the largest batch
    roofline  the largest batch's step, scaled by the roofline time of the recorded steps
    kernels   a line through the time in which kernels ran (step x share of the time that the GPU was busy, by NVML),
              and never less than the shortest measured step: what the host takes
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.cli.output import load_experiment
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.step_program import StepProgram
from scalecurve_api.release import release
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.projection.error_ledger import PredictedPoint, RecordedPrediction, record_prediction
from scalecurve_models.projection.projection import record_steps
from scalecurve_models.projection.worker import balance_of

Rule = Callable[[int], float]


def line(values: Mapping[int, float]) -> Rule:
    """Through the least and the largest batch."""
    low, high = min(values), max(values)
    slope = (values[high] - values[low]) / (high - low)
    return lambda batch: values[low] + slope * (batch - low)


@dataclass(frozen=True)
class Measured:
    """One worker, by batch: seconds of a step, share of them in which a kernel ran where known, and peak memory."""

    seconds: dict[int, float]
    busy: dict[int, float]
    peak_bytes: dict[int, int]
    samples_per_item: float
    device_name: str


def measured_in(bundle: Bundle) -> Measured:
    seconds: dict[int, float] = {}
    busy: dict[int, float] = {}
    peaks: dict[int, int] = {}
    points = [point for series in measure(bundle) for point in series.points if point.steps]
    for point in points:
        batch = point.point.batch_per_worker or 0
        seconds[batch] = fmean(total.total_wall_s / total.total_samples for total in point.steps)
        used = [record.summary.peak_memory_bytes for record in point.good if record.summary]
        peaks[batch] = max((peak for peak in used if peak is not None), default=0)
        samples = [sample for record in point.timed for sample in record.device_samples]
        shares = [one.utilization_mean for one in samples if one is not None and one.utilization_mean is not None]
        if shares:
            busy[batch] = fmean(shares)
    record = points[0].timed[0]
    timed = [window for window in record.windows if window.kind is WindowKind.train and window.steps]
    items = sum(window.steps for window in timed) * (record.trial.point.global_batch or 1)
    per_item = sum(window.samples for window in timed) / items
    return Measured(seconds, busy, peaks, per_item, record.topology[0].device_name)


def roofline(worker: Measured, precision: str, programs: Mapping[int, StepProgram]) -> Rule:
    largest = max(worker.seconds)
    balance = balance_of(worker.device_name, precision, programs[largest])
    unit = worker.seconds[largest] / balance.total(programs[largest])
    print(balance.source)
    return lambda batch: balance.total(programs[batch]) * unit


def at_batch(trial: TrialSpec, batch: int) -> TrialSpec:
    point = trial.point.model_copy(update={"batch_per_worker": batch, "global_batch": batch})
    return trial.model_copy(update={"point": point})


def memories(worker: Measured, programs: Mapping[int, StepProgram]) -> Rule:
    """The recorded peak, and what the largest measured batch took beside its own."""
    largest = max(worker.seconds)
    beside = worker.peak_bytes[largest] - programs[largest].memory.peak
    return lambda batch: float(programs[batch].memory.peak + beside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--overlay", type=Path, action="append", default=[])
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--record", type=Path, required=True)
    arguments = parser.parse_args()
    experiment, text = load_experiment(arguments.experiment, tuple(arguments.overlay))
    bundle = open_bundle(arguments.measured)
    points = {trial.point.name: trial for trial in make_plan(experiment).trials}
    trials = {trial.point.batch_per_worker or 0: trial for trial in points.values()}
    first = next(iter(trials.values()))
    worker = measured_in(bundle)
    batches = sorted({*trials, *worker.seconds})
    steps = record_steps([at_batch(first, batch) for batch in batches])
    refused = [step for step in steps if isinstance(step, str)]
    if refused:
        raise SystemExit(refused[0])
    programs = {batch: step for batch, step in zip(batches, steps, strict=True) if isinstance(step, StepProgram)}
    busy = worker.busy
    rules: dict[str, Rule] = {
        "linear": line(worker.seconds),
        "roofline": roofline(worker, experiment.spec.workload.precision.value, programs),
    }
    if busy.keys() >= worker.seconds.keys():
        kernels = line({batch: seconds * busy[batch] for batch, seconds in worker.seconds.items()})
        rules["kernels"] = lambda batch: max(kernels(batch), min(worker.seconds.values()))
    memory = memories(worker, programs)
    for batch in sorted(worker.seconds):
        print(
            f"measured at {batch}: {worker.seconds[batch] * 1e3:.2f} ms, GPU busy {busy.get(batch, float('nan')):.1%}"
        )
    for model, rule in rules.items():
        predicted = [
            PredictedPoint(
                point=trial.point.name,
                series=trial.point.series,
                workers=1,
                nodes=1,
                step_s=rule(batch),
                throughput=batch * worker.samples_per_item / rule(batch),
                memory_bytes=memory(batch),
            )
            for batch, trial in sorted(trials.items())
        ]
        digests = {bundle.label: bundle.ledger.digest if bundle.ledger else ""}
        prediction = RecordedPrediction(
            model=model, experiment=experiment.metadata.name, version=release(), measured=digests, points=predicted
        )
        name = record_prediction(arguments.record, experiment, text, prediction)
        for each in predicted:
            print(
                f"{model}: {each.series}: {each.step_s * 1e3:.2f} ms, {(each.memory_bytes or 0) / 1e9:.2f} GB ({name})"
            )


if __name__ == "__main__":
    main()
