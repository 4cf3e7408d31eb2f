"""Intervals are those of the textbooks, and hold for any points; what is no point is refused."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scalecurve.statistics.comparison import Pair, changes
from scalecurve.statistics.estimate import Estimate, Method, RepetitionTotals, is_informative
from scalecurve.statistics.intervals import difference, efficiency, ratio, throughput
from scalecurve.statistics.spread import pooled
from tests.analysis.points_by_hand import point_of

positive = st.floats(1e-3, 1e3)
repetition = st.lists(st.tuples(positive, positive), min_size=1, max_size=4).map(
    lambda windows: RepetitionTotals.of([s for s, _ in windows], [w for _, w in windows])
)
points = st.lists(repetition, min_size=1, max_size=5)


def changed(before, after, **how):
    return changes([Pair(before, after)], **how)[0]


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

    def test_repetitions_that_differ_wildly_give_no_interval_and_no_error(self):
        found = throughput(point_of(1.0, 1e9), level=0.999)
        assert (found.low, found.high, found.method) == (None, None, Method.UNKNOWN)
        assert found.unknown
        assert found.reciprocal().high is None
        assert ratio(point_of(1.0, 1.5), point_of(1.0, 1.4)).unknown
        exposed = difference(point_of(1.0, 1.5), point_of(1.0, 0.5), paired=True)
        assert (exposed.low, exposed.high, exposed.method) == (None, None, Method.UNKNOWN), "0.5 s (-5.85 to 6.85)"

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
        if there.low is not None and back.low is not None:
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
        if wide.low is not None:
            assert wide.low <= narrow.low
            assert narrow.high <= wide.high


SESSIONS = ((1.0, 1.001, 0.999), (1.02, 1.021, 1.019), (0.99, 0.991, 0.989))


def sessions_by_hand(*sessions, factor=1.0):
    return [RepetitionTotals((100.0,), (wall * factor,), k) for k, walls in enumerate(sessions) for wall in walls]


class TestSessions:
    def test_throughput_is_t_on_session_means(self):
        found = throughput(sessions_by_hand(*SESSIONS))
        expected = stats.ttest_1samp(np.log([np.mean(walls) for walls in SESSIONS]), 0).confidence_interval(0.95)
        assert (found.method, found.sessions, found.repetitions) == (Method.SESSIONS, 3, 9)
        assert math.log(found.high / found.low) == pytest.approx(expected.high - expected.low, rel=1e-3)

    def test_what_sessions_share_cancels_in_a_ratio(self):
        found = ratio(sessions_by_hand(*SESSIONS, factor=0.5), sessions_by_hand(*SESSIONS))
        assert (found.method, found.sessions) == (Method.SESSIONS, 3)
        assert (found.value, found.half_width / found.value) == pytest.approx((2.0, 0.0), abs=2e-3)
        exposed = difference(sessions_by_hand(*SESSIONS), sessions_by_hand(*SESSIONS, factor=0.5), paired=True)
        assert exposed.method is Method.SESSIONS
        assert exposed.covers(0.005)

    def test_sessions_that_agree_by_chance_are_no_narrower_than_their_repetitions(self):
        walls = (1.0, 1.02, 0.98)
        found, alone = throughput(sessions_by_hand(walls, walls)), throughput(sessions_by_hand(walls * 2))
        assert found.half_width == pytest.approx(alone.half_width, rel=0.25)

    def test_only_sessions_that_measured_both_make_a_ratio(self):
        point, baseline = sessions_by_hand(*SESSIONS, factor=0.5), sessions_by_hand(*SESSIONS[:2])
        found = ratio(point, baseline)
        assert (found.sessions, found.repetitions) == (2, 6)
        assert found.value == pytest.approx(2.0)
        alone = ratio(point, sessions_by_hand(SESSIONS[0]))
        assert (alone.method, alone.sessions) == (Method.WELCH, 1)

    def test_without_a_common_session_a_ratio_is_not_known(self):
        other = [RepetitionTotals((100.0,), (wall,), 7) for wall in SESSIONS[0]]
        found = ratio(sessions_by_hand(*SESSIONS), other)
        assert found.unknown
        assert found.low is None

    def test_noise_of_other_points_widens_repetitions_of_one_kind(self):
        alike, mixed = point_of(1.0, 1.0001, 0.9999), point_of(1.0, 1.05, 1.0501)
        noise = pooled([alike, mixed])
        assert noise.degrees == 4
        assert throughput(alike, noise=noise).half_width > 20 * throughput(alike).half_width
        assert throughput(mixed, noise=noise).half_width == pytest.approx(throughput(mixed).half_width)
        assert pooled([point_of(1.0)]) is None


class TestTwoRepetitions:
    curve = (point_of(1.0, 1.01), point_of(0.52, 0.51), point_of(0.27, 0.274))

    def test_they_take_the_larger_variance_of_point_and_curve_on_the_curves_degrees(self):
        noise = pooled(self.curve)
        assert noise.degrees == 3
        for point in self.curve:
            own = np.var(np.log([r.total_wall_s for r in point]), ddof=1)
            half = stats.t.ppf(0.975, 3) * math.sqrt(max(own, noise.variance) / 2)
            found = throughput(point, noise=noise)
            assert (found.method, found.repetitions) == (Method.POOLED, 2)
            assert math.log(found.high / found.low) == pytest.approx(2 * half)

    def test_both_sides_of_a_ratio_share_one_estimate_and_its_degrees(self):
        noise, (base, *_, last) = pooled(self.curve), self.curve
        variances = [max(noise.variance, np.var(np.log([r.total_wall_s for r in p]), ddof=1)) for p in (base, last)]
        found = efficiency(last, base, 4, 1, noise=noise)
        half = stats.t.ppf(0.975, 3) * math.sqrt(sum(variances) / 2)
        assert found.method is Method.POOLED
        assert math.log(found.high / found.low) == pytest.approx(2 * half)

    def test_three_repetitions_keep_their_own_variance(self):
        three = point_of(1.0, 1.01, 0.99)
        noise = pooled([three, *self.curve])
        assert ratio(three, point_of(2.0, 2.1, 2.2), noise=noise).method is Method.WELCH
        assert ratio(three, self.curve[0], noise=noise).method is Method.POOLED

    def test_a_point_that_the_others_do_not_explain_stands_alone(self):
        wild = point_of(0.25, 0.35)
        noise = pooled([*self.curve, wild])
        assert throughput(wild, noise=noise).unknown
        assert efficiency(wild, self.curve[0], 4, 1, noise=noise).reason == "2 repetitions"

    def test_two_points_do_not_know_enough(self):
        noise = pooled(self.curve[:2])
        assert noise.degrees == 2
        assert efficiency(self.curve[1], self.curve[0], 2, 1, noise=noise) == efficiency(
            self.curve[1], self.curve[0], 2, 1
        )


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


def test_an_interval_too_wide_to_print_still_decides():
    found = ratio(point_of(1.0, 1.3, 0.9), point_of(9.0, 6.0, 7.0))
    assert (found.low, found.high, found.unknown) == (None, None, True)
    assert found.ends is not None
    low, high = found.ends
    assert 1 < low < found.value < high, "6.9 times (3.6 to 13.1) is not known, and faster"
    assert found.reciprocal().ends == pytest.approx((1 / high, 1 / low))
    assert found.scaled(2.0).ends == pytest.approx((2 * low, 2 * high))
    assert throughput(point_of(1.0)).ends is None


def test_importing_the_package_loads_no_numpy_and_the_intervals_no_scipy():
    program = (
        "import sys, scalecurve; assert 'numpy' not in sys.modules; "
        "import scalecurve.statistics; assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("low", "high", "informative"),
    [
        *(
            (0.9, 1.1, True),
            (1.0, 1.0, True),
            (0.5, 1.0, True),
            (0.5, 1.01, False),
            (-0.1, 0.2, True),
            (0.0, 1.0, True),
        ),
        *((0.099, 52_520_826.0, False), (0.0, math.inf, False), (None, None, False), (math.nan, 1.0, False)),
    ],
)
def test_which_intervals_tell_anything(low, high, informative):
    assert is_informative(low, high) is informative
