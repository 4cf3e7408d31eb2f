"""A change is called one only where it is past noise, over however many points are compared."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.session_noise import gate_alarms
from scalecurve.statistics.comparison import KNOWN, Basis, Pair, between_sessions, changes, holm
from scalecurve.statistics.estimate import RepetitionTotals
from scalecurve.statistics.intervals import throughput
from scalecurve.statistics.prior import SESSIONS
from scalecurve.statistics.spread import Spread
from tests.analysis.points_by_hand import point_of
from tests.analysis.synthetic_points import SyntheticPoint


def changed(before, after, **how):
    return changes([Pair(before, after, in_turns=True)], **how)[0]


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
        pairs = [Pair(*sides, in_turns=True) for sides in zip(before, after, strict=True)]
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
        assert found.p_value is None
        assert found.basis is Basis.ALONE
        assert changed(point_of(1.0), point_of(1.0)).p_value is None

    def test_no_scatter_at_all(self):
        still = point_of(1.0, 1.0, 1.0)
        assert changed(still, still).p_value == 1.0
        assert changed(still, point_of(2.0, 2.0, 2.0)).p_value == 0.0
        assert throughput(still).low == throughput(still).value == throughput(still).high


def sessions(rng, count, session_sd=0.005, repetition_sd=0.001, repetitions=3, first=0):
    """A point of several sessions; all of them are equal but for noise."""
    return [
        RepetitionTotals((100.0,), (float(np.exp(shift + repetition_sd * rng.standard_normal())),), first + session)
        for session, shift in enumerate(session_sd * rng.standard_normal(count))
        for _ in range(repetitions)
    ]


class TestSessions:
    """Equal things, measured in other sessions: sd 0.5 % between sessions, 0.1 % between repetitions."""

    @pytest.mark.parametrize(
        ("before", "after", "known", "basis"),
        [
            (3, 3, "own", Basis.SESSIONS),
            (2, 3, "own", Basis.POOLED),
            (1, 4, "own", Basis.POOLED),
            (1, 1, "history", Basis.SESSIONS),
            (1, 1, "stated", Basis.STATED),
            (1, 1, "nothing", Basis.PRIOR),
        ],
    )
    def test_equal_bundles_are_called_changed_in_one_of_twenty(self, before, after, known, basis):
        rng, alarms = np.random.default_rng(8), 0
        for _ in range(1000):
            between = Spread(0.005**2, KNOWN) if known == "stated" else None
            if known == "history":
                between = between_sessions([sessions(rng, 1) for _ in range(5)])
            pair = Pair(sessions(rng, before), sessions(rng, after), between=between)
            (found,) = changes([pair], threshold=0)
            assert found.basis is basis
            alarms += bool(found.changed)
        assert alarms / 1000 <= 0.065  # 5 % and two standard errors

    def test_one_session_on_either_side_is_decided_by_the_prior(self):
        rng = np.random.default_rng(9)
        before, after = sessions(rng, 1), sessions(rng, 1, first=1)
        (found,) = changes([Pair(before, after)])
        assert (found.changed, found.basis) == (False, Basis.PRIOR)
        assert found.decided_by == "prior for sessions of one machine: 0.9 %, 4 degrees of freedom"
        assert 0.04 < found.detectable < 0.06
        (lost,) = changes([Pair(before, [r.slowed(1 / 0.532) for r in after])])
        assert lost.past_threshold
        assert lost.confirmed
        assert lost.ratio.covers(0.532)

    def test_the_prior_alarms_as_often_as_is_stated_and_finds_what_it_says(self):
        """The simulation of benchmarks/session_noise.py, with fewer draws: sessions that differ as the prior says."""
        one, apart = (gate_alarms(np.random.default_rng(11), None, 600, points, shared=False) for points in (1, 4))
        assert one.changed == pytest.approx(5, abs=2)
        assert apart.changed == pytest.approx(5, abs=2)
        assert apart.once == pytest.approx(2.5, abs=2)
        assert apart.red < apart.once
        assert gate_alarms(np.random.default_rng(11), None, 300, 1, shared=False, slower=0.05).changed > 75

    def test_a_loss_that_only_the_prior_decides_needs_a_second_session(self):
        still = np.random.default_rng(12)
        before = sessions(still, 1, session_sd=0)
        once = [r.slowed(1.05) for r in sessions(still, 1, session_sd=0, first=1)]
        (found,) = changes([Pair(before, once)])
        assert found.past_threshold
        assert not found.confirmed
        again = [replace(r, session=2) for r in once]
        (found,) = changes([Pair(before, [*once, *again])])
        assert (found.basis, found.seen, found.confirmed) == (Basis.POOLED, 2, True)
        fine = [replace(r, session=2) for r in sessions(still, 1, session_sd=0)]
        (found,) = changes([Pair(before, [*once, *fine])])
        assert not found.past_threshold
        assert changes([Pair(before, once, between=Spread(0.005**2, KNOWN))])[0].confirmed

    def test_sessions_that_scatter_more_than_the_prior_allows_decide_alone(self):
        rng = np.random.default_rng(13)
        wild = sessions(rng, 3, session_sd=0.1)
        (found,) = changes([Pair(wild, sessions(rng, 1, session_sd=0.1))])
        assert found.basis is Basis.SESSIONS
        assert found.between.variance > 10 * SESSIONS.variance

    def test_by_turns_one_session_decides_and_names_the_smallest_change(self):
        rng = np.random.default_rng(10)
        draws = [[sessions(rng, 1, session_sd=0) for _ in range(2)] for _ in range(1000)]
        equal = [changes([Pair(*sides, in_turns=True)], threshold=0)[0] for sides in draws]
        assert np.mean([bool(change.changed) for change in equal]) <= 0.065
        factor = 1 + np.median([change.detectable for change in equal])
        slower = [(before, [replace(r, wall_s=(r.wall_s[0] * factor,)) for r in after]) for before, after in draws]
        lost = [changes([Pair(*sides, in_turns=True)], threshold=0)[0] for sides in slower]
        assert 0.66 <= np.mean([bool(change.changed) for change in lost]) <= 0.85

    def test_sessions_that_differ_wildly_decide_nothing_and_raise_nothing(self):
        wild = [RepetitionTotals((1.0,), (10.0 ** (90 * session),), session) for session in (-1, 1)]
        (found,) = changes([Pair(wild, point_of(1.0, 1.1))])
        assert found.ratio.unknown
        assert (found.changed, found.detectable) == (False, None)

    def test_a_change_below_the_default_threshold_is_no_failure(self):
        found = changed(point_of(1.0, 1.0001, 0.9999), point_of(1.005, 1.0051, 1.0049))
        assert found.changed
        assert not found.past_threshold
