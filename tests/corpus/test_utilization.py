"""MFU beside published ones: models of about the same size, refusals, and what the report draws."""

from __future__ import annotations

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve.reporting.findings import analyze
from scalecurve_corpus.report.plots import mfu_among_published
from scalecurve_corpus.report.sections import compose_published_section, utilizations
from scalecurve_corpus.schema import PublishedPoint
from scalecurve_corpus.tables import utilization_table
from scalecurve_corpus.utilization import utilization_standings
from tests.corpus.published import corpus, own, published

MINE = {"parameters": 1.2e9, "length": 2048, "mfu": 0.35}
THEIRS = {"parameters": 1.3e9, "length": 2048, "mfu": 0.4, "precision": "bf16"}


@pytest.mark.parametrize(
    "differing",
    [
        {"device": "H200"},
        {"parameters": 2.5e9},
        {"parameters": None},
        {"length": 8192},
        {"precision": "fp8"},
        {"mfu": None},
    ],
    ids=str,
)
def test_what_is_no_model_of_its_kind_is_not_beside_it(differing: dict[str, object]):
    point: PublishedPoint = published(**{**THEIRS, **differing})
    assert utilization_standings([own(**MINE)], corpus(point)) == ()


@pytest.mark.parametrize(
    "differing", [{}, {"workers": 512, "nodes": 64}, {"length": None}, {"precision": None}], ids=str
)
def test_a_model_of_its_size_is_beside_it_on_any_number_of_devices(differing: dict[str, object]):
    (standing,) = utilization_standings([own(**MINE)], corpus(published(**{**THEIRS, **differing})))
    assert standing.shares == [0.4]


def test_a_point_without_its_mfu_has_no_row():
    assert utilization_standings([own(parameters=1.2e9)], corpus(published(**THEIRS))) == ()


def test_figures_of_one_submitter_judge_nothing():
    same = [published("A", system=f"box{at}", **THEIRS) for at in range(6)]
    (few,) = utilization_standings([own(**MINE)], corpus(*same))
    (enough,) = utilization_standings([own(**MINE)], corpus(*same, published("B", **THEIRS), published("C", **THEIRS)))
    assert "6 figures of 1 submitter" in few.refused
    assert enough.refused == ""
    (row,) = utilization_table([few]).rows
    assert len(row) == len(utilization_table([few]).columns)


def test_the_report_of_a_language_model_shows_it():
    analysis = analyze(open_bundles(["docs/evidence/gpu/llm-llama-1b.zip"]))
    standings = analysis.once(utilizations)
    assert standings
    assert {each.source for standing in standings for each in standing.others} == {"llm-foundry"}
    assert [table.name for table in compose_published_section(analysis).tables] == ["utilization"]
    assert mfu_among_published(analysis) is not None


def test_a_report_without_comparable_models_shows_nothing():
    analysis = analyze(open_bundles(["docs/evidence/h200/sessions.zip"]))
    assert mfu_among_published(analysis) is None
    assert compose_published_section(analysis).tables == ()
