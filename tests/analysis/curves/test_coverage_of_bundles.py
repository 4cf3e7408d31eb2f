"""Of many bundles of known truth, 95 % show an interval of efficiency that covers it."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.statistics.estimate import Method
from tests.analysis.drawn_bundles import CURVES, WORKERS, Curve, coverage, draw_bundles
from tests.analysis.synthetic import seal, with_windows
from tests.examples import examples

DRAWS = examples(667, nightly=2000)
STANDARD_ERROR = 100 * (0.95 * 0.05 / DRAWS) ** 0.5
"""Of a share of 95 %, in percent: 0.84 of 667 draws, 0.49 of 2,000."""


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_the_interval_of_efficiency_covers_the_truth(curve: Curve):
    """Within 4.1 standard errors: 93 to 97 % of 2,000 draws."""
    found = coverage(curve, draws=DRAWS, seed=11)
    assert found.efficiency == pytest.approx(95, abs=4.1 * STANDARD_ERROR)


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
