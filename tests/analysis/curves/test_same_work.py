"""Points that did other work than their baseline do not count, and say what differs; honest differences count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.cost import cost
from scalecurve.curves.progress import status
from scalecurve.curves.results import PointResult
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from scalecurve_api.record.trial_record import Check, TrialRecord, TrialWindow
from tests.analysis.synthetic import Truth, experiment, write_bundle

CUSTOM = {"program": "custom", "command": ["python", "train.py"]}
PRICE = {"perWorkerHour": 2.5, "datasetSamples": 50_000, "epochs": 10}
PROOF = ("NoCommunication", "SameData", "NotTrained", "ReplicasDiverged")
ELEMENTS = 100  # of a sample
WINDOWS, STEPS = 4, 12

Told = Mapping[str, Any]
OfRecord = Callable[[int], Told]
OfWindow = Callable[[int, TrialWindow], Told]


def nothing(*_: object) -> Told:
    return {}


def points(
    folder: Path,
    of_record: OfRecord = nothing,
    of_window: OfWindow = nothing,
    mode: str = "weak",
    built_in: bool = False,
    varies: tuple[str, ...] = (),
) -> tuple[PointResult, ...]:
    """The curve of 1 and 2 workers whose records tell this beside what an honest one tells, by worker count."""

    def change(record: TrialRecord) -> TrialRecord:
        workers = record.trial.point.workers
        windows = [
            window.model_copy(
                update={
                    "inputs": ELEMENTS * window.samples,
                    "backwards": window.steps,
                    "pauses": 0,
                    **of_window(workers, window),
                }
            )
            for window in record.windows
        ]
        told = {
            "windows": windows,
            "checks": [Check(name=name, passed=True, detail="seen") for name in PROOF],
            "trained_parameters": 1000,
            "flops_per_sample": 6e3,
            "flops_spread": [6e3, 6e3],
            "options": {"precision": "bf16"},
        }
        return record.model_copy(update={**told, **of_record(workers)})

    more: dict[str, Any] = {} if built_in else {"workload": CUSTOM | {"workVaries": list(varies)}}
    of = experiment("mine", modes=[mode], workers=[1, 2], windows=WINDOWS, steps_per_window=STEPS, cost=PRICE, **more)
    write_bundle(folder, of, Truth(repetition_cv=0.001), change=change, tables=False)
    (series,) = scaling([open_bundle(folder)]).series
    assert series.points[0].doubts == (), "the baseline is what it is"
    return series.points


def at_two(**told: Any) -> OfRecord:
    return lambda workers: told if workers == 2 else {}


def windows_at_two(make: Callable[[TrialWindow], Told]) -> OfWindow:
    return lambda workers, window: make(window) if workers == 2 else {}


FAKES: list[tuple[str, OfRecord, OfWindow, str, str]] = [
    (
        "a third of the FLOPs",
        at_two(flops_per_sample=2e3, flops_spread=[2e3, 2e3]),
        nothing,
        "DifferentFlops",
        "2,000 FLOPs a sample, 6,000 at 1 worker",
    ),
    (
        "threefold FLOPs at the baseline, counted by an older worker",
        lambda workers: {"flops_per_sample": 6e3 if workers == 1 else 2e3, "flops_spread": []},
        nothing,
        "DifferentFlops",
        "2,000 FLOPs a sample, 6,000 at 1 worker",
    ),
    (
        "half of the parameters frozen",
        at_two(trained_parameters=500),
        nothing,
        "DifferentParameters",
        "500 parameters are trained, 1,000 at 1 worker",
    ),
    (
        "another precision",
        lambda workers: {"options": {"precision": "fp32" if workers == 1 else "bf16"}},
        nothing,
        "DifferentArithmetic",
        "arithmetic in bf16, in fp32 at 1 worker",
    ),
    (
        "a third of the samples thrown away behind the loader",
        nothing,
        windows_at_two(lambda window: {"inputs": ELEMENTS * window.samples * 2 // 3}),
        "DifferentInputs",
        "the model reads 66.67 elements for each sample that is counted, 100 at 1 worker",
    ),
    (
        "sequences cut by a fifth, padded batches",
        nothing,
        lambda workers, window: {
            "inputs": round((100 + window.index // 2 % 2) * window.samples / (1.25 if workers == 2 else 1))
        },
        "DifferentInputs",
        "the model reads 80 to 80.80 elements for each sample that is counted, 100 to 101 at 1 worker",
    ),
    (
        "every third step without a backward pass",
        nothing,
        windows_at_two(lambda window: {"backwards": window.steps * 2 // 3}),
        "FewerPasses",
        "0.6667 backward passes a step, 1 at 1 worker",
    ),
    (
        "a third of the work in a feigned evaluation",
        nothing,
        windows_at_two(lambda window: {"pauses": window.steps, "paused_ns": window.wall_ns // 2}),
        "DifferentPauses",
        "33 % of the time is evaluation in no window, 0 times at 1 worker",
    ),
]


@pytest.mark.parametrize(
    ("of_record", "of_window", "reason", "said"), [fake[1:] for fake in FAKES], ids=[f[0] for f in FAKES]
)
def test_other_work_does_not_count(
    tmp_path: Path, of_record: OfRecord, of_window: OfWindow, reason: str, said: str
) -> None:
    point = points(tmp_path, of_record, of_window)[1]
    assert point.doubts == (reason,)
    assert point.other_work == (said,)
    bundle = open_bundle(tmp_path)
    line = f"other work than the baseline: 1 of 2 points: {said}, at 2 workers"
    assert line in status(bundle).headline
    assert line in compose(analyze([bundle]), draw=False).warnings
    assert [p.per_million is not None for p in cost([bundle]).series[0].points] == [True, False]


HONEST: list[tuple[str, OfRecord, OfWindow]] = [
    ("the same", nothing, nothing),
    ("older workers, which told nothing of it", lambda _: {"trained_parameters": None, "flops_spread": []}, nothing),
    (
        "one step counted by an older worker, padded to another length",
        lambda workers: {"flops_per_sample": 6e3 if workers == 1 else 4e3, "flops_spread": []},
        nothing,
    ),
    ("layers that are dropped at random", lambda workers: {"flops_spread": [5e3, 6e3 + 500 * workers]}, nothing),
    ("one count that dropped more of them", at_two(flops_spread=[4.6e3, 5.8e3]), nothing),
    (
        "operations that torch cannot count",
        at_two(flops_spread=[1e3, 1e3], options={"flops": "without flash"}),
        nothing,
    ),
    ("an unknown mixture of precisions", at_two(options={"precision": "mixed"}), nothing),
    (
        "padded batches",
        nothing,
        lambda workers, window: {"inputs": (80 + 7 * (3 * workers + window.index) % 30) * window.samples},
    ),
    ("two micro-batches a step", nothing, windows_at_two(lambda window: {"backwards": 2 * window.steps})),
    ("half as many micro-batches", nothing, lambda workers, window: {"backwards": window.steps * (3 - workers)}),
    ("an update of the generator at every fifth step", nothing, lambda _, window: {"backwards": window.steps // 5}),
    (
        "no hook was reached at two",
        nothing,
        windows_at_two(lambda _: {"inputs": None, "backwards": None, "pauses": None}),
    ),
    (
        "evaluation at every epoch, which ends sooner at two",
        nothing,
        lambda workers, window: {"pauses": int(window.index % 4 < workers), "paused_ns": window.wall_ns},
    ),
    (
        "a short evaluation at every step",
        nothing,
        windows_at_two(lambda window: {"pauses": window.steps, "paused_ns": window.wall_ns // 30}),
    ),
    (
        "one evaluation, at two alone",
        nothing,
        windows_at_two(lambda window: {"pauses": int(window.index == 0), "paused_ns": window.wall_ns}),
    ),
]


@pytest.mark.parametrize(("of_record", "of_window"), [each[1:] for each in HONEST], ids=[each[0] for each in HONEST])
def test_honest_differences_count(tmp_path: Path, of_record: OfRecord, of_window: OfWindow) -> None:
    assert points(tmp_path, of_record, of_window)[1].other_work == ()


def test_what_is_fixed_in_a_step_is_more_a_sample_where_the_batch_is_smaller(tmp_path: Path) -> None:
    """Strong scaling: a mask of 100 elements in each of the batches, and products of the weights alone."""
    curve = points(
        tmp_path,
        lambda workers: {"flops_spread": [6e3 * workers] * 2},
        lambda _, window: {"inputs": ELEMENTS * window.samples + 6400 * window.steps},
        mode="strong",
    )
    assert curve[1].other_work == ()


def test_programs_of_ours_are_not_compared(tmp_path: Path) -> None:
    assert points(tmp_path, at_two(trained_parameters=500), built_in=True)[1].other_work == ()


@pytest.mark.parametrize(("declared", "counts"), [("pruning", True), ("curriculum", False)])
def test_what_is_declared_to_vary_counts_and_is_shown(tmp_path: Path, declared: str, counts: bool) -> None:
    told = at_two(trained_parameters=500, flops_per_sample=2e3, flops_spread=[2e3, 2e3])
    point = points(tmp_path, told, varies=(declared,))[1]
    assert (not point.doubts) is counts
    state = status(open_bundle(tmp_path))
    assert "2,000 FLOPs a sample, 6,000 at 1 worker" in state.headline
    assert "work varies as declared (workload.workVaries): 1 of 2 points" in state.headline
    assert ("other work than the baseline" in state.headline) is not counts
    assert ("500 parameters" in "".join(point.declared_work)) is counts
