"""Tables of traced steps: means over ranks and repetitions, as shares of the traced step."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.explain import explain
from scalecurve.curves.traces import trace_tables, traced_points
from scalecurve_api.record.step_trace import CollectiveTime, KernelTime, StepTrace
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import Truth, amdahl, experiment, write_bundle

EXACT = Truth(step_s=amdahl(0.1, 0.1), repetition_cv=0.0, step_cv=0.0)


def trace(idle_ns: int) -> StepTrace:
    """Two steps of 10 ms each and ``idle_ns``."""
    return StepTrace(
        steps=2,
        wall_ns=20_000_000 + idle_ns,
        device="cpu",
        computing_ns=16_000_000,
        copy_ns=0,
        exposed_ns=4_000_000,
        idle_ns=idle_ns,
        communication_ns=6_000_000,
        kernels=[
            KernelTime(name="copy", calls=8, ns=2_000_000),
            KernelTime(name="convolution", calls=4, ns=14_000_000),
        ],
        collectives=[CollectiveTime(name="all-reduce", calls=2, bytes=8_000_000, ns=6_000_000)],
    )


def with_skew(record: TrialRecord) -> TrialRecord:
    """Rank 1 comes last to three of four calls, and the others wait 2 and 4 ms of a step for it."""
    ranks = record.trial.point.workers
    known = [(4_000_000, 1), (0, 3), (8_000_000, 0)] if ranks == 3 else [(None, None)] * ranks
    rows = [{"name": "all-reduce", "calls": 4, "bytes": 8, "ns": 9, "waited_ns": ns, "last": n} for ns, n in known]
    traces = [trace(0).model_copy(update={"collectives": [CollectiveTime.model_validate(row)]}) for row in rows]
    return record.model_copy(update={"traces": traces})


def test_the_rank_that_others_wait_for_is_named(tmp_path: Path) -> None:
    of = experiment("e", workers=[1, 3], repetitions=2, windows=2, steps_per_window=5, modes=["weak"])
    bundle = open_bundle(write_bundle(tmp_path / "b", of, EXACT, tables=False, change=with_skew))
    (table,) = (each for each in explain([bundle]).tables() if each.name == "skew")
    (row,) = table.plain()["rows"]
    assert (row["workers"], row["class"], row["last"], row["calls"]) == (3, "all-reduce", "rank 1", 0.75)
    assert (row["waited_ms"], row["share"]) == (pytest.approx(3), pytest.approx(0.3))


def with_traces(record: TrialRecord) -> TrialRecord:
    ranks = record.trial.point.workers
    traces = [trace(20_000_000), None] if ranks == 2 else [trace(0)]
    return record.model_copy(update={"traces": traces})


def test_traced_steps_are_tables(tmp_path: Path) -> None:
    of = experiment("e", workers=[1, 2], repetitions=2, windows=2, steps_per_window=5, modes=["weak"])
    bundle = open_bundle(write_bundle(tmp_path / "b", of, EXACT, tables=False, change=with_traces))
    points = traced_points([bundle])
    assert [(point.point.workers, len(point.traces)) for point in points] == [(1, 2), (2, 2)]
    time, kernels, collectives = trace_tables(points)
    assert [row["step_ms"] for row in time.plain()["rows"]] == [10, 20]
    assert [row["computing"] for row in time.plain()["rows"]] == [pytest.approx(0.8), pytest.approx(0.4)]
    assert [row["idle"] for row in time.plain()["rows"]] == [0, pytest.approx(0.5)]
    first = [row for row in kernels.plain()["rows"] if row["workers"] == 1]
    assert [(row["class"], row["calls"], row["time_ms"]) for row in first] == [("convolution", 2, 7), ("copy", 4, 1)]
    (moved,) = (row for row in collectives.plain()["rows"] if row["workers"] == 2)
    assert (moved["class"], moved["calls"], moved["mb_per_step"], moved["time_ms"]) == ("all-reduce", 1, 4, 3)
    assert {table.name for table in explain([bundle]).tables()} >= {"traced", "kernels", "traced-collectives"}


def test_without_traces_there_are_no_tables(tmp_path: Path) -> None:
    of = experiment("e", workers=[1, 2], repetitions=1, windows=2, steps_per_window=5)
    bundle = open_bundle(write_bundle(tmp_path / "b", of, EXACT, tables=False))
    assert trace_tables(traced_points([bundle])) == []
