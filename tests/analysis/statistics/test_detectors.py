"""Detectors see planted defects and little else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve.statistics.autocorrelation import autocorrelation
from scalecurve.statistics.detectors import drift, slow_ranks, stragglers, warm_up
from scalecurve.statistics.modes import bimodality
from tests.analysis.synthetic_points import SyntheticPoint


def steps_of(count: int, steps: int, **model) -> np.ndarray:
    return np.abs(replace(SyntheticPoint(repetition_cv=0.0, step_cv=0.02), **model).steps(count, steps, seed=71))


class TestAutocorrelation:
    @pytest.mark.parametrize("rho", [0.0, 0.6, 0.95])
    @pytest.mark.parametrize("steps", [2000, 50_000])
    def test_effective_steps_of_an_ar1_series(self, rho, steps):
        found = [autocorrelation(run) for run in steps_of(50, steps, autocorrelation=rho)]
        assert np.mean([a.lag1 for a in found]) == pytest.approx(rho, abs=0.02)
        share = np.median([a.effective_steps for a in found]) / steps
        assert share == pytest.approx((1 - rho) / (1 + rho), rel=0.15)

    def test_a_constant_series(self):
        found = autocorrelation([0.1] * 100)
        assert (found.lag1, found.effective_steps) == (0.0, 100.0)

    @given(st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=200))
    def test_bounds(self, series):
        found = autocorrelation(series)
        assert -1.001 <= found.lag1 <= 1.001
        assert 1 <= found.effective_steps <= found.steps


class TestDetectors:
    @pytest.mark.parametrize("steps", [250, 2000])
    @pytest.mark.parametrize("rho", [0.0, 0.6, 0.95])
    def test_few_false_alarms(self, steps, rho):
        runs = steps_of(300, steps, autocorrelation=rho)
        assert np.mean([drift(run).drifting for run in runs]) <= 0.03
        assert np.mean([bimodality(run).bimodal for run in runs]) <= 0.02
        assert np.mean([warm_up(run).too_short for run in runs]) <= 0.03

    @pytest.mark.parametrize("steps", [250, 5000])
    def test_planted_defects_are_found(self, steps):
        runs, clock = steps_of(50, steps), np.arange(steps)
        rising = [drift(run) for run in runs * (1 + 0.1 * clock / steps)]
        assert all(found.drifting for found in rising)
        assert np.mean([found.relative for found in rising]) == pytest.approx(0.095, abs=0.01)

        every_eighth = [bimodality(run) for run in runs * np.where(clock % 8 == 0, 1.3, 1.0)]
        assert np.mean([found.bimodal for found in every_eighth]) >= 0.9
        seen = next(found for found in every_eighth if found.bimodal)
        assert seen.slow_share == pytest.approx(1 / 8, abs=0.02)
        assert seen.slow_mode / seen.fast_mode == pytest.approx(1.3, rel=0.03)

        regimes = [bimodality(run) for run in runs * np.where(clock < 0.6 * steps, 1.0, 1.15)]
        assert np.mean([found.bimodal for found in regimes]) >= 0.9

        cold = [warm_up(run) for run in runs * (1 + 0.5 * np.exp(-clock / (0.04 * steps)))]
        assert np.mean([found.too_short for found in cold]) >= 0.9
        assert 0.05 * steps <= np.median([found.discard for found in cold]) <= 0.3 * steps

    @settings(max_examples=200)
    @given(st.lists(st.floats(1e-9, 1e6) | st.sampled_from([0.1, 0.12]), min_size=20, max_size=120))
    def test_any_series_gets_an_answer_without_a_warning(self, series):
        assert 0 <= drift(series).p_value <= 1
        modes = bimodality(series)
        assert modes.bimodal == (modes.fast_mode is not None)
        assert 0 <= modes.slow_share <= 1
        found = warm_up(series)
        assert 0 <= found.discard <= len(series)

    def test_two_exact_values(self):
        found = bimodality([0.1] * 700 + [0.12] * 300)
        assert found.bimodal
        assert found.fast_mode == pytest.approx(0.1, rel=0.01)
        assert found.slow_mode == pytest.approx(0.12, rel=0.01)
        assert found.slow_share == 0.3

    def test_a_constant_run_has_nothing(self):
        still = np.full(1000, 0.1)
        assert not drift(still).drifting
        assert not bimodality(still).bimodal
        assert not warm_up(still).too_short

    def test_exact_ramp_and_exact_warm_up(self):
        assert drift(0.1 * (1 + np.arange(1000) / 1000)).drifting
        found = warm_up(np.r_[np.full(40, 0.2), np.full(960, 0.1)])
        assert (found.too_short, found.discard, found.excess) == (True, 40, pytest.approx(1.0))

    def test_a_lone_hiccup_is_no_warm_up(self):
        run = steps_of(1, 250)[0]
        run[60] *= 20
        assert not warm_up(run).too_short

    def test_a_periodic_pattern_cannot_hide_from_the_sample(self):
        run = steps_of(1, 300_000)[0] * np.where(np.arange(300_000) % 2 == 0, 1.0, 1.3)
        assert bimodality(run).slow_share == pytest.approx(0.5, abs=0.01)

    def test_slow_rank(self):
        found = slow_ranks([1.0, 1.01, 1.3, 0.99, 1.0, 1.02, 1.15, 1.0])
        assert found.ranks == (2, 6)
        assert found.slow
        assert found.excess[2] == pytest.approx(0.3)
        assert slow_ranks([1.0, 1.3]).ranks == (1,)
        assert slow_ranks([1.0, 1.0, 1.0, 1.05]).ranks == (3,)
        assert not slow_ranks([1.0, 1.001, 0.999, 1.002]).slow
        assert not slow_ranks([1.0, 1.1, 0.9, 1.15, 0.85]).slow
        assert not slow_ranks([0.1]).slow

    @given(st.lists(st.floats(0.1, 10), min_size=2, max_size=12))
    def test_excess_is_over_the_median_of_the_others(self, medians):
        expected = [t / np.median(medians[:r] + medians[r + 1 :]) - 1 for r, t in enumerate(medians)]
        assert slow_ranks(medians).excess == pytest.approx(expected)

    def test_stragglers(self):
        typical = np.full(100, 0.1)
        late = np.where(np.arange(100) % 10 == 0, 0.2, 0.1)
        found = stragglers(late, typical)
        assert (found.straggling, found.share) == (True, 0.1)
        assert found.cost == pytest.approx(1 - 10 / 11)
        assert not stragglers(typical, typical).straggling


class TestBadSeries:
    @pytest.mark.parametrize("detect", [autocorrelation, bimodality, drift, slow_ranks, warm_up])
    def test_detectors_refuse_what_is_no_step_time(self, detect):
        for bad in (np.nan, np.inf, -np.inf, 0.0, -1.0):
            series = np.ones(50)
            series[7] = bad
            with pytest.raises(ValueError, match="finite and positive"):
                detect(series)
        with pytest.raises(ValueError, match="one-dimensional"):
            detect(np.ones((50, 2)))
        with pytest.raises(ValueError, match="at least"):
            detect([])

    def test_stragglers_refuses_what_cannot_be(self):
        with pytest.raises(ValueError, match="got 2 and 3"):
            stragglers([1.0, 1.0], [1.0, 1.0, 1.0])
        with pytest.raises(ValueError, match="below median at step 1"):
            stragglers([1.0, 0.5], [1.0, 1.0])
