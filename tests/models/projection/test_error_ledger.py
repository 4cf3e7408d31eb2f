"""A prediction recorded before a run, the run, and its score."""

import json
import shutil
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.pack import pack
from scalecurve.checks.verify import verify
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.ledger import Event
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.projection.error_ledger import (
    PredictedPoint,
    RecordedPrediction,
    record_prediction,
    scores,
)
from tests.analysis.synthetic import experiment, write_bundle


def of() -> ScalingExperiment:
    return experiment("scored", modes=["weak"], workers=[1, 2], repetitions=2)


def predicted(step_s: float = 0.1) -> RecordedPrediction:
    point = next(trial.point for trial in make_plan(of()).trials if trial.point.workers == 2)
    one = PredictedPoint(point=point.name, series=point.series, workers=2, nodes=1, step_s=step_s, throughput=1280.0)
    return RecordedPrediction(model="projection", experiment="scored", version="0", points=[one])


def run(folder: Path, scratch: Path) -> None:
    """What an engine leaves: records, and their attempts in the ledger."""
    made = open_bundle(write_bundle(scratch, of()))
    shutil.copytree(scratch / "trials", folder / "trials")
    ledger = LedgerFile(folder)
    for trial in made.trials:
        assert trial.record is not None
        ledger.started(trial.name, 1)
        ledger.ended(trial.record, (folder / "trials" / trial.name / "trial.json").read_bytes())


def record(folder: Path, step_s: float = 0.1) -> str:
    return record_prediction(folder, of(), json.dumps(of().wire()), predicted(step_s))


def test_a_prediction_before_the_run_is_scored_as_such(tmp_path: Path):
    record(tmp_path / "b")
    assert scores(open_bundle(tmp_path / "b")) == []
    run(tmp_path / "b", tmp_path / "scratch")
    (score,) = scores(open_bundle(tmp_path / "b"))
    assert score.before
    assert score.step_error == pytest.approx(0.1 / score.step_s - 1)
    assert score.memory_error is None


def test_a_prediction_after_the_run_says_so(tmp_path: Path):
    record(tmp_path / "b")
    run(tmp_path / "b", tmp_path / "scratch")
    record(tmp_path / "b", step_s=0.2)
    assert [score.before for score in scores(open_bundle(tmp_path / "b"))] == [True, False]


def test_the_ledger_chains_the_prediction_and_the_bundle_still_holds(tmp_path: Path):
    name = record(tmp_path / "b")
    run(tmp_path / "b", tmp_path / "scratch")
    bundle = open_bundle(tmp_path / "b")
    assert bundle.ledger is not None
    assert not bundle.ledger.breaks
    (entry,) = bundle.ledger.of(Event.predicted)
    assert list(entry.predictions or {}) == [name]
    assert {claim.what: claim.holds for claim in verify(bundle).claims}["ledger"] is True


def test_a_changed_prediction_is_refused(tmp_path: Path):
    path = tmp_path / "b" / "predictions" / record(tmp_path / "b")
    path.write_text(path.read_text().replace("0.1", "0.2"))
    with pytest.raises(FitError, match="was changed after it was recorded"):
        scores(open_bundle(tmp_path / "b"))


def test_a_packed_bundle_keeps_its_predictions(tmp_path: Path):
    record(tmp_path / "b")
    run(tmp_path / "b", tmp_path / "scratch")
    pack(tmp_path / "b", tmp_path / "b.zip")
    assert scores(open_bundle(tmp_path / "b.zip"))[0].before


def test_the_bundle_of_another_experiment_is_refused(tmp_path: Path):
    write_bundle(tmp_path / "b", experiment("another"))
    with pytest.raises(FitError, match="another experiment"):
        record(tmp_path / "b")
