"""Change points: found where they are, rarely where there are none, by sessions and not by repetitions."""

import numpy as np
import pytest

from scalecurve.statistics.change_points import LEAST_SESSIONS, _largest, _widest, change_points, level_ratio
from scalecurve.statistics.estimate import Method

Rows = list[list[float | None]]


def noise(sessions: int, seed: int, sd: float = 0.005) -> np.ndarray:
    return sd * np.random.default_rng(seed).standard_normal(sessions)


def rows(*values: np.ndarray) -> Rows:
    return [list(row) for row in values]


def test_a_step_is_found():
    values = noise(30, 1)
    values[18:] -= 0.03
    (change,) = change_points(rows(values))
    assert change.at == 18
    assert change.first <= 18 <= change.last
    assert change.last - change.first <= 3
    assert change.ratio.value == pytest.approx(np.exp(-0.03), rel=0.01)
    assert change.ratio.method is Method.SESSIONS


def test_a_dip_that_was_repaired_is_two_changes():
    values = noise(40, 2)
    values[15:22] -= 0.03
    assert [change.at for change in change_points(rows(values))] == [15, 22]


def test_curves_keep_their_own_changes():
    first, second, still = noise(30, 3), noise(30, 4), noise(30, 5)
    first[10:] += 0.03
    second[20:] -= 0.03
    up, down = change_points(rows(first, second, still))
    assert (up.curve, down.curve) == (0, 1)
    assert up.first <= 10 <= up.last
    assert down.first <= 20 <= down.last


def test_gaps_are_no_values():
    values = noise(24, 6)
    values[12:] -= 0.05
    gaps: list[float | None] = [None if index % 3 == 1 else value for index, value in enumerate(values)]
    (change,) = change_points([gaps])
    assert change.at == 12


def test_without_a_change_alarms_are_as_rare_as_stated():
    """Six curves that share their sessions' noise, heavy tails: 5 % of draws may alarm. Of 200, 10 % is a bug."""
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(200):
        shared = 0.005 * rng.standard_t(3, 16)
        alarms += bool(
            change_points([list(shared + 0.001 * rng.standard_normal(16)) for _ in range(6)], permutations=199)
        )
    assert alarms <= 20


def test_few_sessions_show_nothing():
    """However clear a step is: of so few sessions, every order is too likely."""
    assert change_points([[0.0] * 4 + [-0.05] * 4]) == []
    assert change_points([[0.0] * 4 + [-0.05] * 5])[0].at == 4


def test_equal_values_do_not_change():
    assert change_points([[7.0] * 20]) == []
    assert change_points([]) == []
    assert change_points([[None] * 20, [1.0] * 20]) == []


def test_the_same_input_gives_the_same_result():
    values = noise(30, 8)
    values[11:] -= 0.01
    assert change_points(rows(values)) == change_points(rows(values))


def test_one_odd_session_is_no_level():
    values = noise(LEAST_SESSIONS + 8, 9)
    values[5] -= 0.2
    assert change_points(rows(values)) == []


def test_the_statistic_is_that_of_every_split_by_hand():
    values = noise(11, 10)
    about = ((values - values.mean()) ** 2).sum()
    best = 0.0
    for begin in range(2, 10):
        for end in (*range(begin + 2, 10), 11):
            inside = np.zeros(11, bool)
            inside[begin:end] = True
            parts = (values[inside], values[~inside])
            if len(parts[0]) > 1:
                explained = sum(len(part) * (part.mean() - values.mean()) ** 2 for part in parts)
                best = max(best, explained / about)
    assert _largest(values[None, :])[0] == pytest.approx(best)
    begin, end = _widest(list(values))
    assert 2 <= begin < end <= 11


def test_a_ratio_of_single_sessions_has_no_interval():
    ratio = level_ratio([0.0, 0.01, 0.02], [0.5])
    assert ratio.unknown
    assert ratio.low is None


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1"):
        change_points([[1.0]], alpha=1.0)
    with pytest.raises(ValueError, match="an entry for each session"):
        change_points([[1.0], [1.0, 2.0]])
