"""Terms of lost efficiency from sections of steps: by hand, and adding up for any numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.anatomy import StepAnatomy, anatomy_of
from scalecurve.curves.explain import explain
from scalecurve.curves.terms import causes, parallel_efficiency
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_api.record.sections import SectionTimes
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import Truth, experiment, write_bundle

MS = 1_000_000
QUIET = {"step_cv": 0.0, "repetition_cv": 0.0}


def sections(own_ms: float | None = None, steps: int = 10, **ms: float) -> SectionTimes:
    wall = ms.pop("wall")
    spent = {f"{name}_ns": round(value * MS * steps) for name, value in ms.items()}
    return SectionTimes.model_validate(
        {"steps": steps, "wall_ns": round(wall * MS * steps), **spent, "own_ns": own_ms and own_ms * MS}
    )


def with_sections(at: dict[int, list[SectionTimes | None]]):  # type: ignore[no-untyped-def]
    def change(record: TrialRecord) -> TrialRecord:
        return record.model_copy(update={"sections": at[record.trial.point.workers]})

    return change


def record_of(tmp_path: Path, times: list[SectionTimes | None], step_s: float = 0.1) -> TrialRecord:
    spec = experiment("one", modes=["weak"], workers=[len(times)], repetitions=1, windows=1, steps_per_window=10)
    truth = Truth(step_s=lambda p: step_s, **QUIET)
    folder = write_bundle(tmp_path / "b", spec, truth, tables=False, change=with_sections({len(times): times}))
    (trial,) = open_bundle(folder).trials
    assert trial.record is not None
    return trial.record


def test_a_hidden_wait_is_taken_out_of_the_pass_it_hides_in(tmp_path: Path) -> None:
    fast = sections(60, wall=100, input=5, forward=20, backward=60, optimizer=10, communication=0)
    slow = sections(80, wall=100, input=25, forward=20, backward=40, optimizer=10, communication=0)
    found = anatomy_of(record_of(tmp_path, [fast, slow]))
    assert found is not None
    parts = {name: round(seconds * 1e3, 6) for name, seconds in found.parts.items()}
    assert parts == {
        "communication": 20, "imbalance": 20, "input": 5, "transfer": 0, "compute": 40, "optimizer": 10, "host": 5,
        "unknown": 0,
    }  # fmt: skip
    assert found.load_balance == pytest.approx(70 / 80)
    assert found.communication_efficiency == pytest.approx(0.8)


def test_a_wait_that_is_told_is_no_part_of_a_pass(tmp_path: Path) -> None:
    times = sections(70, wall=100, forward=20, backward=30, optimizer=10, communication=25)
    found = anatomy_of(record_of(tmp_path, [times, times]))
    assert found is not None
    # Five of the thirty are hidden in the passes; the host has the fifteen that are in no section.
    assert found.parts["compute"] == pytest.approx(0.045)
    assert found.parts["host"] == pytest.approx(0.015)
    assert found.parts["communication"] == pytest.approx(0.030)
    assert found.parts["unknown"] == pytest.approx(0)


def test_what_hides_a_wait_is_not_explained(tmp_path: Path) -> None:
    times = sections(None, wall=100, forward=20, backward=60, optimizer=10)
    found = anatomy_of(record_of(tmp_path, [times, times]))
    assert found is not None
    assert found.own_s == ()
    assert found.parts["unknown"] == pytest.approx(0.060)


def test_a_rank_without_sections_leaves_the_trial_without(tmp_path: Path) -> None:
    times = sections(70, wall=100, forward=20)
    assert anatomy_of(record_of(tmp_path, [times, None])) is None


def test_waiting_for_servers_is_its_own_term(tmp_path: Path) -> None:
    times = [sections(None, wall=100, forward=20, backward=30, optimizer=10, server=ms) for ms in (40.0, 30.0)]
    found = anatomy_of(record_of(tmp_path, list(times)))
    assert found is not None
    assert found.parts["server"] == pytest.approx(0.030)
    assert found.parts["imbalance"] == pytest.approx(0.010)
    assert "communication" not in found.parts


seconds = st.floats(0.001, 1)
parts = st.fixed_dictionaries(
    dict.fromkeys(("communication", "imbalance", "input", "compute", "host", "unknown"), seconds)
)


@given(here=st.lists(parts, min_size=1, max_size=3), before=st.lists(parts, min_size=1, max_size=3), kept=seconds)
def test_causes_add_up_to_what_is_lost(
    here: list[dict[str, float]], before: list[dict[str, float]], kept: float
) -> None:
    last, base = ([StepAnatomy(sum(each.values()), each) for each in side] for side in (here, before))
    efficiency = Estimate(kept, None, None, 0.95, Method.NONE, 1)
    assert sum(cause.share.value for cause in causes(last, base, efficiency)) == pytest.approx(1 - kept)


def test_pop_gives_the_efficiency_against_one_worker() -> None:
    base = [StepAnatomy(0.08, {"compute": 0.08}, (0.08,))]
    last = [StepAnatomy(0.125, {"compute": 0.125}, (0.08, 0.1))]
    pop = parallel_efficiency(last, base, 0.64)
    assert pop is not None
    assert (pop.load_balance, pop.communication) == (pytest.approx(0.9), pytest.approx(0.8))
    assert pop.overall == pytest.approx(0.64)
    assert parallel_efficiency([StepAnatomy(0.1, {})], base, 0.64) is None


def test_explain_names_the_largest_section(tmp_path: Path) -> None:
    spec = experiment("slow", modes=["weak"], workers=[1, 2], repetitions=3, windows=2, steps_per_window=10)
    one = sections(None, wall=100, input=1, forward=40, backward=49, optimizer=10)
    two = sections(120, wall=125, input=21, forward=40, backward=54, optimizer=10, communication=0)
    truth = Truth(step_s=lambda p: 0.1 if p.workers == 1 else 0.125, **QUIET)
    folder = write_bundle(tmp_path / "b", spec, truth, tables=False, change=with_sections({1: [one], 2: [two, two]}))
    explanation = explain([open_bundle(folder)])
    ((_, bar),) = explanation.bars
    assert sum(term.share for term in bar.terms) == pytest.approx(1)
    assert bar.largest is not None
    assert (bar.largest.kind, bar.largest.share) == ("input", pytest.approx(0.16))
    assert [table.name for table in explanation.tables()] == ["explain", "pop"]
