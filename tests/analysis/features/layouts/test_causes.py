"""The bubble of pipelines: the formula, what uneven stages add, and who is slow."""

from pathlib import Path
from types import FunctionType

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scalecurve.bundle.open import open_bundle
from scalecurve.cli import cli
from scalecurve.curves import explain
from scalecurve.features.layouts.causes import pipeline_table, pipelines
from scalecurve_api.features.layouts.facts import PipelineTimes
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.registry import Registry
from tests.analysis.synthetic import experiment, write_bundle
from tests.api.rank_records import with_facts

FORM = experiment("mine", modes=["weak"], workers=[1, 4], windows=2, steps_per_window=5)


def times(own: list[float], parts: int, bubble: float, virtual: int = 1) -> PipelineTimes:
    return PipelineTimes(
        schedule="1f1b",
        workers=len(own),
        stages_per_worker=virtual,
        micro_batches=parts,
        steps=10,
        span_s=1.0,
        own_s=own,
        bubble=bubble,
    )


def bundle(folder: Path, own: list[float], bubble: float) -> Path:
    def piped(record: TrialRecord) -> TrialRecord:
        one = record.trial.point.workers == 1
        return with_facts(record, pipeline=None if one else times(own, 8, bubble))

    return write_bundle(folder, FORM, tables=False, change=piped)


@given(
    own=st.floats(1e-3, 10),
    workers=st.integers(2, 16),
    parts=st.integers(1, 64),
    virtual=st.sampled_from([1, 2]),
)
def test_equal_stages_have_the_bubble_of_the_formula(own: float, workers: int, parts: int, virtual: int) -> None:
    made = times([own] * workers, parts, 0.0, virtual)
    assert made.expected_bubble == pytest.approx((workers - 1) / (virtual * parts + workers - 1))
    assert made.uneven_bubble == pytest.approx(made.expected_bubble)


@given(own=st.lists(st.floats(1e-3, 10), min_size=2, max_size=8), parts=st.integers(1, 64))
def test_uneven_stages_have_a_larger_one(own: list[float], parts: int) -> None:
    made = times(own, parts, 0.0)
    assert made.expected_bubble - 1e-9 <= made.uneven_bubble < 1
    assert own[made.slowest] == max(own)


def test_the_shares_add_up_to_the_bubble(tmp_path: Path) -> None:
    (result,) = pipelines([open_bundle(bundle(tmp_path / "b", [0.1, 0.1, 0.2, 0.1], 0.5))])
    assert result.formula == pytest.approx(3 / 11)
    assert result.uneven == pytest.approx(1 - 0.125 / (0.2 + 0.3 / 8) - 3 / 11)
    assert result.formula + result.uneven + result.rest == pytest.approx(result.bubble.value) == pytest.approx(0.5)
    assert (result.slowest, result.above) == (3, pytest.approx(1.6))
    (row,) = pipeline_table([result]).frame().to_dict("records")
    assert (row["stages"], row["micro_batches"], row["slowest"]) == (4, 8, 3)


def test_explain_names_the_slow_stage_and_is_silent_on_even_ones(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["explain", str(bundle(tmp_path / "uneven", [0.1, 0.1, 0.2, 0.1], 0.5))])
    assert shown.exit_code == 0, shown.output
    assert "uneven stages cost 20" in shown.output
    assert "worker 3 of the 4 of its pipeline computes 1.60 times the mean" in shown.output
    even = CliRunner().invoke(cli, ["explain", str(bundle(tmp_path / "even", [0.1] * 4, 0.28))])
    assert "Pipelines" in even.output
    assert "uneven stages cost" not in even.output


def test_without_a_pipeline_there_is_no_table(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", FORM, tables=False)
    assert pipelines([open_bundle(folder)]) == ()
    assert "Pipelines" not in CliRunner().invoke(cli, ["explain", str(folder)]).output


def test_without_the_feature_explain_has_the_terms_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = [open_bundle(bundle(tmp_path / "b", [0.1, 0.1, 0.2, 0.1], 0.5))]
    assert [table.name for table in explain.explain(opened).tables()] == ["explain", "pipelines"]
    monkeypatch.setattr(explain, "_OF_FEATURES", Registry("scalecurve.no_causes", "", FunctionType, {}))
    alone = explain.explain(opened)
    assert [table.name for table in alone.tables()] == ["explain"]
    assert not [line for line in alone.advice() if "uneven stages" in line]


@pytest.mark.parametrize("wrong", [{"own_s": []}, {"own_s": [-1.0]}, {"micro_batches": 0}, {"bubble": 2.0}])
def test_times_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PipelineTimes.model_validate({**times([0.1, 0.1], 4, 0.2).model_dump(), **wrong})
