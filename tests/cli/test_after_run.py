"""What features show when a run has ended: bandwidths in place of the curve, and nothing below it."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.cli import after_run as module
from scalecurve.cli.after_run import AfterRun, after_run
from scalecurve.curves.compute import scaling
from tests.analysis.synthetic import Truth, experiment, write_bundle

FIXTURES = Path(__file__).parents[1] / "fixtures"


def shown(path: Path) -> tuple[list[str], list[str]]:
    """The names of the tables that stand for the scaling table, and of those below it."""
    bundle = open_bundle(path)
    features = after_run()
    return (
        [table.name for each in features for table in each.results(bundle)],
        [table.name for each in features for table in each.tables(bundle, scaling([bundle]))],
    )


def test_a_benchmark_shows_its_bandwidths():
    assert shown(FIXTURES / "allreduce-h200.zip") == (["allreduce"], [])


def test_a_training_shows_its_curve(tmp_path: Path):
    spec = experiment(modes=["weak"], workers=[1, 2], windows=2, steps_per_window=5)
    assert shown(write_bundle(tmp_path / "b", spec, Truth(), tables=False)) == ([], [])


def test_without_features_nothing_is_added(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_INSTALLED", module.Registry("scalecurve.after_no_run", "nothing", AfterRun, {}))
    assert after_run() == ()
