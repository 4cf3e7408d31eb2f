"""Why a curve bends: terms that add up, advice on the largest, and an experiment that tests it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle
from scalecurve.cli import cli
from scalecurve.curves.explain import experiment_that_tests, explain
from scalecurve_api.validation.validate import validate_text
from tests.analysis.synthetic import Truth, experiment, write_bundle

TALKS = Truth(exposed_share=lambda p: 0.0 if p.workers == 1 else 0.2, step_cv=0.001, repetition_cv=0.001)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    slow = Truth(
        step_s=lambda p: 0.1 if p.workers == 1 else 0.125, exposed_share=TALKS.exposed_share, step_cv=0.001,
        repetition_cv=0.001,
    )  # fmt: skip
    spec = experiment("mine", modes=["weak"], workers=[1, 2, 4], windows=3, steps_per_window=10)
    return write_bundle(tmp_path / "b", spec, slow, tables=False)


def test_the_terms_of_every_point_add_up_to_its_step(bundle: Path) -> None:
    bars = explain([open_bundle(bundle)]).bars
    assert [bar.workers for _, bar in bars] == [2, 4]
    for _, bar in bars:
        assert sum(term.share for term in bar.terms) == pytest.approx(1)
        assert bar.largest is not None
        assert bar.largest.kind == "communication"
        assert bar.largest.share == pytest.approx(0.2, abs=0.01)


def test_advice_is_on_the_largest_term(bundle: Path) -> None:
    (line,) = explain([open_bundle(bundle)]).advice()
    assert line.startswith("weak at 4 workers: communication that is waited for is worth at most 20.")


def test_the_experiment_that_tests_it_is_valid(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "test.yaml"
    done = CliRunner().invoke(cli, ["explain", str(bundle), "--test", str(out)])
    assert done.exit_code == 0, done.output
    checked = validate_text(out.read_text(), "test.yaml")
    assert not checked.problems
    assert list(checked.experiments[0].spec.matrix) == ["options.bucketCapMb"]
    assert checked.experiments[0].metadata.name == "mine-test"
    again = CliRunner().invoke(cli, ["explain", str(bundle), "--test", str(out)])
    assert again.exit_code == 2
    assert "exists already" in again.output


def test_json_has_the_terms_and_the_advice(bundle: Path) -> None:
    done = CliRunner().invoke(cli, ["explain", str(bundle), "-o", "json"])
    tree = json.loads(done.stdout)
    assert {row["kind"] for row in tree["explain"]["rows"]} == {"kept", "communication", "compute"}
    assert len(tree["advice"]) == 1


def test_nothing_lost_is_said(tmp_path: Path) -> None:
    spec = experiment("ideal", modes=["weak"], workers=[1, 2], windows=3, steps_per_window=10)
    folder = write_bundle(
        tmp_path / "b", spec, Truth(step_s=lambda p: 0.1 / p.workers**0.01, step_cv=0, repetition_cv=0)
    )
    result = explain([open_bundle(folder)])
    assert result.bars == ()
    assert "No measured point is slower than ideal." in result.table().notes
    opened = open_bundle(folder)
    assert opened.experiment is not None
    assert experiment_that_tests(result, opened.experiment) is None
