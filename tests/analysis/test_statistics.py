"""Intervals keep their coverage on points of known truth; detectors see planted defects and little else."""

import math
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scalebench.statistics import (
    Estimate,
    Method,
    RepetitionTotals,
    autocorrelation,
    bimodality,
    changed,
    changes,
    difference,
    drift,
    efficiency,
    holm,
    ratio,
    slow_ranks,
    stragglers,
    throughput,
    warm_up,
)
from scalebench.statistics.synthetic import SyntheticPoint

DRAWS = 2000
FIVE = (50,) * 5
EQUAL = (FIVE,) * 3
UNEQUAL = (FIVE, (50, 30, 20, 60), (80, 50, 20, 50, 40, 60))
UNLIKE = (FIVE, (50,) * 2, (50,) * 3)


def point_of(*seconds: float, samples: float = 100.0) -> list[RepetitionTotals]:
    """One window a repetition."""
    return [RepetitionTotals((samples,), (wall,)) for wall in seconds]


positive = st.floats(1e-3, 1e3)
repetition = st.lists(st.tuples(positive, positive), min_size=1, max_size=4).map(
    lambda windows: RepetitionTotals.of([s for s, _ in windows], [w for _, w in windows])
)
points = st.lists(repetition, min_size=1, max_size=5)


class TestCoverage:
    @pytest.mark.parametrize("inflation", [1, 3, 10])
    @pytest.mark.parametrize(
        ("point_windows", "baseline_windows", "rho", "between"),
        [
            (EQUAL, EQUAL, 0.0, 0.0),
            (EQUAL, EQUAL, 0.6, 0.005),
            (EQUAL, EQUAL, 0.95, 0.05),
            ((FIVE,) * 5, (FIVE,) * 5, 0.6, 0.005),
            ((FIVE,) * 5, EQUAL, 0.6, 0.005),
            (UNEQUAL, UNEQUAL, 0.6, 0.005),
            (UNEQUAL, UNEQUAL, 0.95, 0.05),
            (UNLIKE, EQUAL, 0.6, 0.005),
        ],
    )
    def test_efficiency_is_covered_in_93_to_97_percent(self, point_windows, baseline_windows, rho, between, inflation):
        baseline = SyntheticPoint(windows=baseline_windows, autocorrelation=rho, repetition_cv=between)
        point = SyntheticPoint(
            windows=point_windows,
            step_s=0.12,
            samples_per_step=4 * 256.0,
            autocorrelation=rho,
            step_cv=0.1 * inflation**0.5,
            repetition_cv=between * inflation**0.5,
        )
        truth = point.throughput / baseline.throughput / 4
        pairs = zip(point.draws(DRAWS, seed=11), baseline.draws(DRAWS, seed=12), strict=True)
        covered = sum(efficiency(at_four, at_one, 4, 1).covers(truth) for at_four, at_one in pairs)
        assert 0.93 <= covered / DRAWS <= 0.97

    @pytest.mark.parametrize(("at_four", "at_one"), [(2, 2), (2, 3), (3, 2)])
    @pytest.mark.parametrize("inflation", [1, 10])
    def test_two_repetitions_cover_in_the_wider_band_that_is_documented(self, at_four, at_one, inflation):
        baseline = SyntheticPoint(windows=(FIVE,) * at_one)
        noisier = {"step_cv": 0.1 * inflation**0.5, "repetition_cv": 0.01 * inflation**0.5}
        point = replace(baseline, windows=(FIVE,) * at_four, **noisier)
        pairs = zip(point.draws(DRAWS, seed=13), baseline.draws(DRAWS, seed=14), strict=True)
        covered = sum(ratio(first, second).covers(1.0) for first, second in pairs)
        assert 0.905 <= covered / DRAWS <= 0.985

    @pytest.mark.parametrize("repetitions", [2, 3, 5])
    def test_throughput_is_covered(self, repetitions):
        point = SyntheticPoint(windows=(FIVE,) * repetitions, autocorrelation=0.95)
        covered = sum(throughput(draw).covers(point.throughput) for draw in point.draws(DRAWS, seed=21))
        assert 0.93 <= covered / DRAWS <= 0.97

    def test_one_run_covers_its_own_throughput_when_windows_outlast_the_autocorrelation(self):
        point = SyntheticPoint(windows=(FIVE,), repetition_cv=0.0)
        covered = sum(throughput(draw).covers(point.throughput) for draw in point.draws(DRAWS, seed=31))
        assert 0.93 <= covered / DRAWS <= 0.97

    def test_exposed_communication_is_covered_though_trials_differ(self):
        full, bare = (SyntheticPoint(repetition_cv=0.0, step_s=s, samples_per_step=1.0) for s in (0.12, 0.1))
        common = np.exp(np.random.default_rng(41).normal(0, 0.05, (DRAWS, 3)))
        covered, widths = 0, []
        for with_comm, without, factors in zip(full.draws(DRAWS, 42), bare.draws(DRAWS, 43), common, strict=True):
            both = [
                [RepetitionTotals.of(r.samples, np.multiply(r.wall_s, f)) for r, f in zip(p, factors, strict=True)]
                for p in (with_comm, without)
            ]
            paired = difference(both[0], both[1], paired=True)
            covered += paired.covers(0.02)
            widths.append((paired.half_width, difference(both[0], both[1]).half_width))
        assert 0.93 <= covered / DRAWS <= 0.97
        assert np.median([p for p, _ in widths]) < np.median([u for _, u in widths])

    def test_the_level_is_the_coverage(self):
        point, draws = SyntheticPoint(), 1000
        covered = sum(throughput(draw, level=0.8).covers(point.throughput) for draw in point.draws(draws, seed=51))
        assert 0.76 <= covered / draws <= 0.84


class TestIntervals:
    def test_throughput_is_a_ratio_of_sums_and_not_a_mean_of_rates(self):
        point = [RepetitionTotals((100.0, 300.0), (1.0, 9.0)), RepetitionTotals((400.0,), (10.0,))]
        assert throughput(point).value == 800 / 20

    def test_equal_repetitions_give_students_interval_on_logs(self):
        seconds = [1.0, 1.1, 0.95]
        found, logs = throughput(point_of(*seconds)), np.log(seconds)
        half = stats.t.ppf(0.975, 2) * stats.sem(logs)
        assert found.low == pytest.approx(found.value * math.exp(-half))
        assert found.high == pytest.approx(found.value * math.exp(half))
        assert (found.method, found.repetitions, found.level) == (Method.REPETITIONS, 3, 0.95)

    def test_ratio_is_welch_on_logs(self):
        slow, fast = [2.0, 2.2, 1.9, 2.05], [1.0, 1.01, 0.99]
        found = ratio(point_of(*fast), point_of(*slow))
        welch = stats.ttest_ind(np.log(slow), np.log(fast), equal_var=False).confidence_interval(0.95)
        assert math.log(found.high / found.low) == pytest.approx(welch.high - welch.low)
        assert found.method is Method.WELCH
        assert found.repetitions == 3

    def test_difference_is_welch_in_seconds(self):
        full, bare = [0.12, 0.13, 0.121], [0.1, 0.101, 0.102]
        found = difference(point_of(*full, samples=1.0), point_of(*bare, samples=1.0))
        welch = stats.ttest_ind(full, bare, equal_var=False).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((welch.low, welch.high))

    def test_paired_ratio_is_one_sample_t_on_log_ratios(self):
        full, bare = np.array([0.12, 0.13, 0.14]), np.array([0.1, 0.11, 0.115])
        found = ratio(point_of(*full), point_of(*bare), paired=True)
        expected = stats.ttest_1samp(np.log(bare / full), 0).confidence_interval(0.95)
        assert math.log(found.high / found.low) == pytest.approx(expected.high - expected.low)
        assert found.method is Method.PAIRED

    def test_one_repetition_is_marked_within_run_only(self):
        lone = [RepetitionTotals((10.0, 10.0, 10.0), (1.0, 1.1, 1.05))]
        for found in (throughput(lone), ratio(lone, point_of(1, 1.1, 1.2)), ratio(point_of(1, 1.1, 1.2), lone)):
            assert found.within_run_only
            assert found.has_interval
            assert found.repetitions == 1

    def test_alternated_windows_of_one_run_are_paired(self):
        full = [RepetitionTotals((1.0,) * 3, (0.12, 0.13, 0.14))]
        bare = [RepetitionTotals((1.0,) * 3, (0.10, 0.11, 0.12))]
        found = difference(full, bare, paired=True)
        assert found.within_run_only
        assert (found.low, found.high) == pytest.approx((0.02, 0.02))

    def test_one_window_has_no_interval(self):
        lone = point_of(1.0)
        for found in (throughput(lone), ratio(lone, point_of(1, 2, 3)), difference(point_of(1, 2), lone)):
            assert (found.low, found.high, found.method) == (None, None, Method.NONE)
            assert not found.covers(found.value)
            assert found.half_width is None
        assert throughput(lone).reciprocal().complement().scaled(2.0).low is None

    def test_a_baseline_against_itself_is_one_by_definition(self):
        point = point_of(1.0, 1.1)
        found = efficiency(point, point, 2, 2)
        assert (found.value, found.low, found.high, found.method) == (1.0, 1.0, 1.0, Method.DEFINITION)

    def test_repetitions_that_differ_wildly_give_an_endless_interval_and_no_error(self):
        found = throughput(point_of(1.0, 1e9), level=0.999)
        assert (found.low, found.high) == (0.0, math.inf)
        assert found.reciprocal().high == math.inf

    @given(points)
    def test_the_interval_holds_the_value(self, point):
        found = throughput(point)
        if found.has_interval:
            assert 0 <= found.low <= found.value <= found.high
            assert found.covers(found.value)

    @given(points, points)
    def test_swapping_a_ratio_inverts_it(self, first, second):
        there, back = ratio(first, second), ratio(second, first).reciprocal()
        assert there.value == pytest.approx(back.value)
        assert there.has_interval == back.has_interval
        if there.has_interval and there.low > 1e-250 and there.high < 1e250:
            assert (there.low, there.high) == pytest.approx((back.low, back.high), rel=1e-6)

    @given(st.permutations([1.0, 1.3, 0.8, 1.05]))
    def test_the_order_of_repetitions_does_not_matter(self, seconds):
        found = throughput(point_of(*seconds))
        expected = throughput(point_of(1.0, 1.3, 0.8, 1.05))
        assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))

    @given(points, points, st.integers(1, 64), st.integers(1, 8))
    def test_efficiency_is_speed_up_over_relative_size(self, point, baseline, workers, baseline_workers):
        found = efficiency(point, baseline, workers, baseline_workers)
        if found.method is not Method.DEFINITION:
            assert found.value == pytest.approx(ratio(point, baseline).value * baseline_workers / workers)

    @given(points)
    def test_a_higher_level_is_wider(self, point):
        narrow, wide = throughput(point, 0.8), throughput(point, 0.99)
        if narrow.has_interval:
            assert wide.low <= narrow.low
            assert narrow.high <= wide.high


class TestBadInput:
    @pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
    @pytest.mark.parametrize("field", ["samples", "wall_s"])
    def test_a_window_must_be_finite_and_positive(self, field, bad):
        given = {"samples": (1.0, 1.0), "wall_s": (1.0, 1.0)} | {field: (1.0, bad)}
        with pytest.raises(ValueError, match=rf"{field}\[1\] must be finite and positive"):
            RepetitionTotals(**given)

    def test_windows_must_match_and_exist(self):
        with pytest.raises(ValueError, match="2 samples and 1 wall times"):
            RepetitionTotals((1.0, 2.0), (1.0,))
        with pytest.raises(ValueError, match="0 samples"):
            RepetitionTotals((), ())

    @pytest.mark.parametrize("level", [0.0, 1.0, math.nan, 95])
    def test_level(self, level):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            throughput(point_of(1, 2), level)

    def test_points(self):
        with pytest.raises(ValueError, match="at least one repetition"):
            ratio(point_of(1.0), [])
        with pytest.raises(ValueError, match="given 2 and 3"):
            ratio(point_of(1, 2), point_of(1, 2, 3), paired=True)
        with pytest.raises(ValueError, match="worker counts"):
            efficiency(point_of(1, 2), point_of(1, 2), 0, 1)
        with pytest.raises(ValueError, match="finite positive factor"):
            throughput(point_of(1, 2)).scaled(-1.0)
        with pytest.raises(ValueError, match="reciprocal"):
            difference(point_of(1, 2), point_of(3, 4)).reciprocal()
        with pytest.raises(ValueError, match="threshold"):
            changed(point_of(1, 2), point_of(1, 2), threshold=math.inf)

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
        with pytest.raises(ValueError, match="given 2 and 3"):
            stragglers([1.0, 1.0], [1.0, 1.0, 1.0])
        with pytest.raises(ValueError, match="below median at step 1"):
            stragglers([1.0, 0.5], [1.0, 1.0])


class TestEstimate:
    def test_turning_it_over(self):
        rate = Estimate(4.0, 2.0, 8.0, 0.95, Method.WELCH, 3)
        assert rate.half_width == 3.0
        assert (rate.scaled(0.5).low, rate.scaled(0.5).high) == (1.0, 4.0)
        inverse = rate.reciprocal()
        assert (inverse.low, inverse.value, inverse.high) == (0.125, 0.25, 0.5)
        left = inverse.complement()
        assert (left.low, left.value, left.high) == (0.5, 0.75, 0.875)
        assert left.method is Method.WELCH


class TestChanges:
    def test_holms_own_steps(self):
        assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])
        assert holm([0.6, 0.9]) == [1.0, 1.0]
        assert holm([]) == []

    @settings(max_examples=50)
    @given(st.lists(st.floats(0, 1), max_size=20))
    def test_holm_never_lowers_a_p_value_nor_their_order(self, p_values):
        adjusted = holm(p_values)
        assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
        by_p = [adjusted[i] for i in np.argsort(p_values, kind="stable")]
        assert by_p == sorted(by_p)

    def test_one_false_alarm_in_twenty_comparisons_of_ten_points(self):
        model, families, size = SyntheticPoint(), 500, 10
        before = list(model.draws(families * size, seed=61))
        after = list(model.draws(families * size, seed=62))
        pairs = list(zip(before, after, strict=True))
        alarms = sum(
            any(change.changed for change in changes(pairs[start : start + size]))
            for start in range(0, len(pairs), size)
        )
        assert alarms / families <= 0.05

    def test_a_real_loss_is_found_and_held_against_the_threshold(self):
        before, after = point_of(1.0, 1.002, 0.998), point_of(1.1, 1.102, 1.099)
        found = changed(before, after, threshold=0.05)
        assert found.changed
        assert found.slower
        assert found.past_threshold
        assert found.adjusted_p == found.p_value
        below = changed(before, after, threshold=0.2)
        assert below.changed
        assert not below.past_threshold
        welch = stats.ttest_ind(np.log([1.0, 1.002, 0.998]), np.log([1.1, 1.102, 1.099]), equal_var=False)
        assert found.p_value == pytest.approx(welch.pvalue, rel=1e-3)

    def test_noise_is_no_change_however_far_apart(self):
        found = changed(point_of(1.0, 1.5, 0.7), point_of(1.4, 0.9, 2.0), threshold=0.01)
        assert found.changed is False
        assert not found.past_threshold

    def test_one_repetition_is_undecided(self):
        lone = [RepetitionTotals((10.0,) * 3, (1.0, 1.001, 0.999))]
        found = changed(lone, [RepetitionTotals((10.0,) * 3, (2.0, 2.001, 1.999))], threshold=0.1)
        assert found.changed is None
        assert not found.past_threshold
        assert found.ratio.value == pytest.approx(0.5)
        assert found.p_value < 0.001
        assert changed(point_of(1.0), point_of(1.0)).p_value is None

    def test_no_scatter_at_all(self):
        still = point_of(1.0, 1.0, 1.0)
        assert changed(still, still).p_value == 1.0
        assert changed(still, point_of(2.0, 2.0, 2.0)).p_value == 0.0
        assert throughput(still).low == throughput(still).value == throughput(still).high


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

    @pytest.mark.parametrize("detect", [autocorrelation, bimodality, drift, warm_up])
    def test_half_a_million_steps_take_milliseconds(self, detect):
        run, best = np.random.default_rng(81).lognormal(-2.0, 0.1, 500_000), math.inf
        for _ in range(7):
            start = time.thread_time()
            detect(run)
            best = min(best, time.thread_time() - start)
        assert best < 0.040  # 1 to 5 ms on a quiet machine, as benchmarks/coverage.py prints


def test_importing_the_package_loads_no_numpy_and_the_intervals_no_scipy():
    program = (
        "import sys, scalebench; assert 'numpy' not in sys.modules; "
        "import scalebench.statistics; assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
