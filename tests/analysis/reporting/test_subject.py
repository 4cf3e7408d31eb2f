from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle, open_bundles
from scalecurve.checks.environment import environment
from scalecurve.cli import cli
from scalecurve.reporting.headlines import subjects
from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.trial import TrialPhase
from tests.analysis.synthetic import Truth, experiment, write_bundle

OF = experiment("what", workers=[1, 2], windows=2, steps_per_window=3)


def test_a_report_says_what_was_measured_on_what_and_when(tmp_path: Path):
    endings = {make_plan(OF).trials[0].name: (TrialPhase.failed, "RankFailed", "")}
    (line,) = subjects([open_bundle(write_bundle(tmp_path, OF, Truth(), tables=False, endings=endings))])
    what, count, when = line.split("; ")
    assert what.split(", ")[:2] == ["resnet18", "torch"]
    assert what.endswith("synthetic")
    assert "synthetic data" in what
    assert count == "11 of 12 trials valid"
    assert when.startswith("measured 2026-09-")
    assert when.endswith(" UTC")


def test_experiments_are_named_where_there_are_several(tmp_path: Path):
    folders = [write_bundle(tmp_path / name, OF, Truth(), tables=False) for name in "ab"]
    assert [line.partition(":")[0] for line in subjects(open_bundles(folders))] == ["what", "what#2"]


def test_nothing_is_said_of_nothing(tmp_path: Path):
    endings = {trial.name: (TrialPhase.failed, "RankFailed", "") for trial in make_plan(OF).trials}
    assert subjects([open_bundle(write_bundle(tmp_path, OF, Truth(), tables=False, endings=endings))]) == ()


@pytest.mark.parametrize(("payload", "models"), [("sizes", []), ("gradients", ["resnet18"])])
def test_an_all_reduce_has_no_model_unless_it_sends_its_gradients(tmp_path: Path, payload: str, models: list[str]):
    spec = {"program": "allreduce", "sizes": {"payload": payload}}
    of = experiment("sum", modes=["weak"], workers=[2], windows=2, steps_per_window=3, workload=spec)
    row = AllReduceRow(
        **{
            "bytes": 8,
            "in_place": True,
            "iterations": 9,
            "time_us_median": 2.0,
            "time_us_min": 1.0,
            "time_us_p95": 3.0,
        },
        **{"algbw": 1.0, "busbw": 1.0, "errors": 0},
    )
    facts = environment([open_bundle(write_bundle(tmp_path, of, Truth(), tables=False, allreduce=lambda _: [row]))])
    assert [value for fact in facts if fact.what == "model" for value, _ in fact.values] == models
    assert not any(fact.what == "data" for fact in facts)


def test_imported_numbers_are_of_the_model_and_framework_that_their_source_states(tmp_path: Path):
    source = Path(__file__).parents[3] / "manifests" / "studies" / "paleo" / "inception_v3-k80-published.csv"
    done = CliRunner().invoke(cli, ["import", str(source), "--into", str(tmp_path / "k80")])
    assert done.exit_code == 0, done.output
    (line,) = subjects([open_bundle(tmp_path / "k80")])
    said = "imported, not checked by ScaleCurve, inception_v3, TensorFlow, fp32, K80; 4 of 4 trials valid"
    assert line.startswith(said)
