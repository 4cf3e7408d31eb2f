"""What a curve's headline says: why it bends, and when nothing is known."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.results import SeriesResult
from scalecurve.curves.tables import split_table
from scalecurve.render import formatting as spelling
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.trial import Point, TrialPhase
from tests.analysis.synthetic import Truth, experiment, write_bundle


def strong(folder: Path, truth: Truth, seed: int = 0, **spec: object) -> SeriesResult:
    of = experiment(modes=["strong"], windows=3, steps_per_window=10, **spec)  # type: ignore[arg-type]
    (series,) = scaling([open_bundle(write_bundle(folder, of, truth, tables=False, seed=seed))]).series
    return series


def bent(point: Point) -> float:
    """4 workers: a fourth of the work at 80 % of the pace, and a tenth of the step by communication."""
    return 0.4 if point.workers == 1 else 0.4 / point.workers / 0.8 / 0.9


def communicates(point: Point) -> float:
    return 0.0 if point.workers == 1 else 0.1


def test_the_headline_says_why_a_curve_bends(tmp_path: Path):
    truth = Truth(step_s=bent, exposed_share=communicates, step_cv=0.001, repetition_cv=0.0005)
    series = strong(tmp_path, truth)
    last = series.points[-1]
    assert last.computing.value == pytest.approx(0.8, rel=0.01)
    assert last.efficiency.value == pytest.approx(0.72, rel=0.01)
    said = f"compute alone would keep {spelling.percent(last.computing.value)}"
    left = last.efficiency.value / last.computing.value
    said += " (64 per worker instead of 256)"
    assert series.headline.endswith(f"; {said}, communication leaves {spelling.percent(left)} of that")
    result = scaling([open_bundle(tmp_path)])
    assert ",computing," in split_table(result).csv()


def test_nothing_is_explained_that_was_not_lost(tmp_path: Path):
    truth = Truth(step_s=lambda p: 0.4 / p.workers, exposed_share=communicates, step_cv=0.01, repetition_cv=0.01)
    series = strong(tmp_path, truth)
    assert series.points[-1].efficiency.high > 1
    assert "would keep" not in series.headline


def test_an_interval_that_decides_nothing_is_called_so(tmp_path: Path):
    series = strong(tmp_path, Truth(step_s=lambda p: 0.4 / p.workers**0.5, repetition_cv=1.5), seed=1)
    low, high = series.points[-1].speedup.low, series.points[-1].speedup.high
    assert low <= 1
    assert high >= 4
    assert series.headline.endswith("; inconclusive: the interval includes both no speed-up and ideal speed-up")


def test_one_repetition_is_named_in_the_headline(tmp_path: Path):
    series = strong(tmp_path, Truth(), repetitions=1)
    assert "95 % interval" not in series.headline
    assert "(within the run only " in series.headline
    assert " (single repetition: run-to-run variation unknown)" in series.headline
    alone = strong(tmp_path / "alone", Truth(), repetitions=1, workers=[2])
    assert alone.headline.endswith(" on 2 workers (single repetition: run-to-run variation unknown)")


def test_larger_counts_without_a_good_trial_are_named(tmp_path: Path):
    of = experiment(modes=["strong"], windows=3, steps_per_window=10)
    endings = {
        trial.name: (TrialPhase.invalid, "NoisyNeighbour", "")
        for trial in make_plan(of).trials
        if trial.point.workers > 1
    }
    (series,) = scaling([open_bundle(write_bundle(tmp_path, of, Truth(), tables=False, endings=endings))]).series
    assert series.headline.endswith(" on 1 worker; no valid trials at 2, 4 workers")


@pytest.mark.parametrize(
    ("value", "low", "high", "text", "share"),
    [
        (0.4513, 0.00005413, 3693.29, "0.45 (0.000054–3,693)", "45 % (0.0054–369,329)"),
        (27.12, 2.21, 338.2, "27 (2.2–338)", "2,712 % (221–33,820)"),
        (0.11, 0.009, 0.21, "0.110 (0.009–0.210)", "11.0 % (0.9–21.0)"),
    ],
)
def test_each_end_of_a_very_wide_interval_has_digits_of_its_own(
    value: float, low: float, high: float, text: str, share: str
):
    wide = Estimate(value, low, high, 0.95, Method.WELCH, 3)
    assert spelling.interval(wide) == text
    assert spelling.percent_interval(wide) == share


def test_a_share_is_never_minus_zero():
    assert spelling.percent(-0.0001) == "0.0 %"
    assert spelling.percent(11.09) == "1,109.0 %"
