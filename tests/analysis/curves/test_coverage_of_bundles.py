"""Of 2,000 bundles of known truth, 93 to 97 % show an interval of efficiency that covers it."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.statistics.estimate import Method
from tests.analysis.drawn_bundles import CURVES, WORKERS, Curve, coverage, draw_bundles
from tests.analysis.synthetic import seal, with_windows


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_the_interval_of_efficiency_covers_the_truth(curve: Curve):
    found = coverage(curve, draws=2000, seed=11)
    assert 93 <= found.efficiency <= 97, f"{found.efficiency:.2f} %"


@pytest.mark.parametrize("curve", CURVES[:2], ids=lambda curve: curve.name)
def test_a_drawn_bundle_is_what_a_folder_of_it_would_be(curve: Curve, tmp_path: Path):
    """The way through memory is the way through files: the same numbers, and near the truth they were drawn from."""
    (drawn,) = draw_bundles(curve, 1, seed=3)
    assert drawn.experiment is not None
    (tmp_path / "experiment.yaml").write_text(drawn.experiment.model_dump_json(by_alias=True, exclude_none=True))
    for order, trial in enumerate(drawn.trials):
        assert trial.record is not None
        home = tmp_path / "trials" / trial.name
        home.mkdir(parents=True)
        seal(home, with_windows(trial.record.model_copy(update={"files": {}}), trial.record.windows, order * 10**13))
    opened = open_bundle(tmp_path)
    assert opened.problems == ()
    (in_memory,), (from_files,) = scaling([drawn]).series, scaling([opened]).series
    assert [p.efficiency for p in from_files.points] == [p.efficiency for p in in_memory.points]
    assert [p.throughput for p in from_files.points] == [p.throughput for p in in_memory.points]
    largest = from_files.points[-1]
    assert largest.workers == WORKERS
    assert largest.speedup is not None
    assert largest.speedup.method is Method.WELCH
    assert largest.speedup.repetitions == 3
    assert largest.speedup.value == pytest.approx(curve.speedup, rel=0.1)
