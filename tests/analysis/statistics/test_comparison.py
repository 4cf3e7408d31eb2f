"""A change is called one only where it is past noise, over however many points are compared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scalecurve.statistics import RepetitionTotals, changed, changes, holm, throughput
from tests.analysis.points_by_hand import point_of
from tests.analysis.synthetic_points import SyntheticPoint


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
