"""Intervals are those of the textbooks, and hold for any points; what is no point is refused."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scalecurve.statistics import Estimate, Method, RepetitionTotals, changed, difference, efficiency, ratio, throughput
from tests.analysis.points_by_hand import point_of

positive = st.floats(1e-3, 1e3)
repetition = st.lists(st.tuples(positive, positive), min_size=1, max_size=4).map(
    lambda windows: RepetitionTotals.of([s for s, _ in windows], [w for _, w in windows])
)
points = st.lists(repetition, min_size=1, max_size=5)


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
            assert found.low is not None
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
        if found.low is not None:
            assert 0 <= found.low <= found.value <= found.high
            assert found.covers(found.value)

    @given(points, points)
    def test_swapping_a_ratio_inverts_it(self, first, second):
        there, back = ratio(first, second), ratio(second, first).reciprocal()
        assert there.value == pytest.approx(back.value)
        assert (there.low is None) == (back.low is None)
        if there.low is not None and there.low > 1e-250 and there.high < 1e250:
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
        if narrow.low is not None:
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
        with pytest.raises(ValueError, match="got 2 and 3"):
            ratio(point_of(1, 2), point_of(1, 2, 3), paired=True)
        with pytest.raises(ValueError, match="worker counts"):
            efficiency(point_of(1, 2), point_of(1, 2), 0, 1)
        with pytest.raises(ValueError, match="finite positive factor"):
            throughput(point_of(1, 2)).scaled(-1.0)
        with pytest.raises(ValueError, match="reciprocal"):
            difference(point_of(1, 2), point_of(3, 4)).reciprocal()
        with pytest.raises(ValueError, match="threshold"):
            changed(point_of(1, 2), point_of(1, 2), threshold=math.inf)


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


def test_importing_the_package_loads_no_numpy_and_the_intervals_no_scipy():
    program = (
        "import sys, scalecurve; assert 'numpy' not in sys.modules; "
        "import scalecurve.statistics; assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
