"""The export to MLflow, with the real library where it is installed (``pip install mlflow-skinny`` is enough)."""

import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli
from scalecurve_timelines.mlflow_export import SESSION_TAG, MlflowError, export
from scalecurve_timelines.timeline import History, history
from tests.timelines.past import write_past


@pytest.fixture
def known(tmp_path: Path) -> History:
    write_past(tmp_path / "past", 2, repetitions=1)
    return history([tmp_path / "past"])


def test_without_the_library_a_line_says_how_to_get_it(known: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MlflowError, match="pip install mlflow"):
        export(known, str(tmp_path / "runs"))
    ran = CliRunner().invoke(cli, ["history", str(tmp_path / "past"), "--mlflow", str(tmp_path / "runs")])
    assert ran.exit_code == 3
    assert "--mlflow: MLflow is not installed" in ran.stderr


def test_each_session_is_a_run_once(known: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own, of its file store and of its dependencies
        mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install mlflow-skinny")
        uri = (tmp_path / "runs").as_uri()
        assert export(known, uri) == (2, 0)
        assert export(known, uri) == (0, 2)
        client = mlflow.MlflowClient(tracking_uri=uri)
        with pytest.raises(MlflowError, match="nowhere://"):
            export(known, "nowhere://there")
        (experiment,) = [e for e in client.search_experiments() if e.name == "nightly"]
        runs = client.search_runs([experiment.experiment_id])
    assert len({run.data.tags[SESSION_TAG] for run in runs}) == 2
    first = min(runs, key=lambda run: run.info.start_time)
    assert first.info.start_time == known.timelines[0].sessions[0].started_ns // 10**6
    assert first.data.metrics["throughput/weak/2/1x2"] == pytest.approx(known.timelines[0].curves[1].values[0].value)
    assert first.data.params["version of torch"] == "2.14.1"
