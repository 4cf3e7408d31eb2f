"""Why a curve bends: terms that add up, advice on the largest, and an experiment that tests it."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle
from scalecurve.cli import cli
from scalecurve.curves.compute import scaling
from scalecurve.curves.explain import experiment_that_tests, explain
from scalecurve_api.validation.validate import validate_text
from tests.analysis.packed_bundles import PACKED, name_of
from tests.analysis.synthetic import Truth, experiment, write_bundle

DOCS = Path(__file__).parents[3] / "docs" / "evidence"
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
        assert sum(term.share for term in bar.terms) == pytest.approx(1, abs=1e-3)
        assert bar.largest is not None
        assert bar.largest.kind == "communication"
        assert bar.largest.share == pytest.approx(0.2, abs=0.01)


def test_advice_is_on_the_largest_term(bundle: Path) -> None:
    (line,) = explain([open_bundle(bundle)]).advice()
    worth = re.match(
        r"weak at 4 workers: communication that is waited for(?:, less .+)? is worth at most (\S+) %", line
    )
    assert worth is not None
    assert float(worth[1]) == pytest.approx(20, abs=1)


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


@pytest.mark.parametrize("packed", PACKED, ids=name_of)
def test_no_split_contradicts_itself(packed: Path) -> None:
    explained = explain([open_bundle(packed)])
    for _, bar in explained.bars:
        assert all(0 <= term.share <= 1 for term in bar.terms), bar
        assert sum(term.share for term in bar.terms) == pytest.approx(1, abs=1e-3), bar
        assert not bar.refused or bar.largest is None
    assert not re.search(r"worth at most \d{3,}", "\n".join(explained.advice()))


def test_what_contradicts_itself_is_named() -> None:
    explained = explain([open_bundle(DOCS / "gpu" / "explain-gpt2.zip")])
    (line,) = [line for line in explained.advice() if "not split" in line]
    assert "not explained would be 59.8 % of a step, of which 20.4 % is lost: faster computing -28.9 %" in line
    (term,) = [row for row in explained.table().plain()["rows"] if row["term"] == "not split"]
    assert term["evidence"] == f"not split: {line.partition('not split: ')[2].partition(';')[0]}"


def test_steps_that_are_slower_without_communication_split_nothing() -> None:
    (bundle,) = (path for path in PACKED if path.name == "cross-device-ops.zip")
    points = [p for series in scaling([open_bundle(bundle)]).series for p in series.points if p.split_refused]
    assert points
    for point in points:
        assert re.fullmatch(
            r"steps without communication took .+, longer than the .+ of steps with it \(\d+ windows of each\)",
            point.split_refused,
        )
        assert (point.compute_s, point.exposed_s, point.exposed_share) == (None, None, None)
