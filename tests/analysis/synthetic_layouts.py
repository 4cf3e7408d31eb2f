"""A bundle of layouts of parallelism of known speed: tensor parallelism helps, a pipeline costs a little."""

from pathlib import Path

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve_api.features.layouts.facts import Equality
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point
from tests.analysis.synthetic import Truth, experiment, write_bundle
from tests.api.rank_records import with_facts


def form(repetitions: int = 3) -> ScalingExperiment:
    made = experiment("mine", modes=["strong"], workers=[1, 4], windows=3, steps_per_window=5, repetitions=repetitions)
    tree = made.wire()
    tree["spec"]["workload"] = {
        "program": "torch",
        "model": "llama_tiny",
        "data": {"sequenceLength": 32},
        "parallelism": {"replicate": 1, "shard": "auto"},
    }
    tree["spec"]["matrix"] = {"parallelism.tensor": [1, 2], "parallelism.pipeline": [1, 2]}
    tree["spec"]["exclude"] = [
        {"workers": 1, "parallelism.tensor": 2},
        {"workers": 1, "parallelism.pipeline": 2},
    ]
    return ScalingExperiment.model_validate(tree)


def seconds(point: Point) -> float:
    """Tensor parallelism helps by a third, a pipeline costs a tenth."""
    own = 0.4 / point.workers
    return own * (0.75 if point.axes["parallelism.tensor"] == 2 else 1) * (1.1 if piped(point) else 1)


def piped(point: Point) -> bool:
    return point.axes["parallelism.pipeline"] == 2


def layout_bundle(folder: Path, repetitions: int = 3, noise: float = 0.001) -> Bundle:
    truth = Truth(step_s=seconds, step_cv=noise, repetition_cv=noise)
    return open_bundle(write_bundle(folder, form(repetitions), truth, tables=False, change=equal))


def equal(record: TrialRecord) -> TrialRecord:
    """The record of a layout that computes what one process computes."""
    same = Equality(
        losses=[1.0],
        reference=[1.0],
        loss_tolerance=1e-4,
        gradient_error=0.0,
        gradient_tolerance=1e-3,
        parameter="p",
        parameters=1,
        how="test",
    )
    point = record.trial.point
    return with_facts(record, layout=point.parallelism, equality=[same] * point.workers)
