"""Slow repetitions and repetitions of two kinds are seen; clean ones rarely are."""

import numpy as np
import pytest

from scalecurve.statistics.kinds import two_kinds, unseen_share
from tests.analysis.points_by_hand import point_of


def drawn(rng, points, repetitions, slow_share=0.0, scatter=0.001):
    shape = (points, repetitions)
    slow = 1 + 0.05 * (rng.random(shape) < slow_share)
    return [point_of(*times) for times in np.exp(scatter * rng.standard_normal(shape)) * slow]


@pytest.mark.parametrize(("points", "repetitions"), [(1, 6), (2, 3), (2, 12), (4, 3), (4, 5), (8, 3)])
def test_clean_curves_are_rarely_flagged(points, repetitions):
    rng = np.random.default_rng(5)
    flagged = [bool(two_kinds(drawn(rng, points, repetitions, scatter=0.01))) for _ in range(1000)]
    assert np.mean(flagged) <= 0.02


@pytest.mark.parametrize(("share", "points", "repetitions"), [(0.5, 4, 3), (0.2, 4, 4), (0.5, 1, 12), (0.1, 4, 9)])
def test_two_kinds_are_seen(share, points, repetitions):
    rng = np.random.default_rng(6)
    flagged = [bool(two_kinds(drawn(rng, points, repetitions, slow_share=share))) for _ in range(200)]
    assert np.mean(flagged) >= 0.9


def test_what_is_flagged_is_described():
    clean, slow = point_of(1.0, 1.001, 0.999), point_of(2.0, 2.2, 2.001)
    (found,) = two_kinds([clean, slow, clean])
    assert (found.point, found.session, found.slow, found.repetitions) == (1, 0, 1, 3)
    assert found.excess == pytest.approx(0.1, abs=0.001)
    assert two_kinds([point_of(1.0, 1.0, 1.005), clean]) == []  # beyond noise, and too small to matter
    assert two_kinds([point_of(1.0, 2.0)]) == []


def test_what_so_few_repetitions_cannot_show():
    assert unseen_share(3) == pytest.approx(0.632, abs=0.001)
    assert unseen_share(29) < 0.1 < unseen_share(28)
