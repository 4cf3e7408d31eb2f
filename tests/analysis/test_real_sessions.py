"""Three real sessions of ResNet-50 on three machines with two H200s: does an interval hold the session left out?"""

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.checks.compare import compare
from scalecurve.curves.compute import scaling
from scalecurve.curves.results import PointResult
from scalecurve.statistics.comparison import Basis
from scalecurve.statistics.intervals import throughput
from scalecurve.statistics.prior import SESSIONS, most_likely
from scalecurve.statistics.spread import Spread, sessions_of, sum_of_squares

NUMBERS = (0, 1, 2)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return open_bundle(Path("docs/evidence/h200/sessions.zip"))


def of(bundle: Bundle, *sessions: int) -> Bundle:
    return replace(bundle, trials=tuple(t for t in bundle.trials if t.spec.session in sessions))


def points(bundle: Bundle) -> list[PointResult]:
    return [p for series in scaling([bundle]).series for p in series.points]


def test_the_headlines_name_sessions_and_machines(bundle: Bundle) -> None:
    assert all("over 3 sessions on 3 machines" in series.headline for series in scaling([bundle]).series)
    one = scaling([of(bundle, 1)]).series
    assert all("within one session on one machine" in series.headline for series in one)


def test_two_sessions_hold_the_third(bundle: Bundle) -> None:
    """All efficiencies, and 11 of 12 throughputs: at one point two agree to 0.04 %, and the third is 0.9 % faster."""
    rates, ratios = [], []
    for left_out in NUMBERS:
        others = points(of(bundle, *(k for k in NUMBERS if k != left_out)))
        for known, alone in zip(others, points(of(bundle, left_out)), strict=True):
            assert known.throughput is not None
            assert known.efficiency is not None
            assert alone.throughput is not None
            assert alone.efficiency is not None
            rates.append(known.throughput.covers(alone.throughput.value))
            ratios.append(known.efficiency.covers(alone.efficiency.value))
    assert all(ratios)
    assert (sum(rates), len(rates)) == (11, 12)


def test_one_session_does_not_hold_the_others(bundle: Bundle) -> None:
    """Which is why its headline says that it holds within one session only."""
    missed = [
        p.point.name
        for session in NUMBERS
        for p, other in zip(points(of(bundle, session)), points(of(bundle, (session + 1) % 3)), strict=True)
        if p.throughput and other.throughput and not p.throughput.covers(other.throughput.value)
    ]
    assert missed


def test_sessions_are_compared_by_their_spread_and_by_the_prior(bundle: Bundle) -> None:
    first, second = of(bundle, 0), of(bundle, 1)
    for known, basis in (
        ({}, Basis.PRIOR),
        ({"history": [bundle]}, Basis.POOLED),
        ({"session_sd": 0.005}, Basis.STATED),
    ):
        found = [p.change for p in compare(first, second, **known).points]
        assert {change.changed for change in found} == {False}
        assert {change.basis for change in found} == {basis}


def session_rates() -> list[list[float]]:
    """The throughput of each session, of every point that was measured in several on equal servers."""
    places = ("gpu/between-machines-gpt2-small", "gpu/between-machines-resnet50", "gpu/sessions", "h200/sessions")
    measured = [
        p for place in places for s in measure(open_bundle(Path(f"docs/evidence/{place}.zip"))) for p in s.points
    ]
    return [[throughput(each).value for each in sessions_of(p.samples).values()] for p in measured if p.timed]


def test_the_prior_reaches_as_far_as_the_sessions_that_were_measured() -> None:
    """What `scalecurve.statistics.prior` says of its origin."""
    logs = [[math.log(rate) for rate in rates] for rates in session_rates()]
    fitted = most_likely([(sum_of_squares(each), len(each) - 1) for each in logs])
    assert math.sqrt(fitted.variance) == pytest.approx(0.0020, abs=0.0001)
    assert fitted.degrees == pytest.approx(1.1, abs=0.05)
    reach, of_fit = (Spread(2 * prior.variance, prior.degrees) for prior in (SESSIONS, fitted))
    assert (reach.half_width(0.95), of_fit.half_width(0.95)) == pytest.approx((0.035, 0.027), abs=0.001)
    assert of_fit.half_width(0.999) > 0.9 > 0.11 > reach.half_width(0.999)
    pairs = [abs(one - other) for each in logs for one, other in combinations(each, 2)]
    assert (len(logs), sum(gap <= reach.half_width(0.95) for gap in pairs), len(pairs)) == (10, 35, 36)
