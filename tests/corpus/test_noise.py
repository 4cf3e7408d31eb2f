"""Intervals for further runs on a machine, and for another machine of its kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.statistics.prior import Prior
from scalecurve_corpus.noise import FLOOR, LogInterval, another_machine, machine_prior, this_session

RATES = st.lists(st.floats(90, 110), min_size=2, max_size=8)


def test_an_interval_is_students_with_an_additive_part():
    interval = this_session([100.0, 101.0, 102.0])
    assert interval is not None
    logs = np.log([100.0, 101.0, 102.0])
    assert interval.center == pytest.approx(logs.mean())
    assert interval.half == pytest.approx(4.302653 * math.sqrt((logs.var(ddof=1) + FLOOR**2) / 3), rel=1e-6)


def test_runs_that_agree_by_chance_are_not_exact():
    interval = this_session([100.0, 100.0, 100.0])
    assert interval is not None
    assert interval.half == pytest.approx(4.302653 * FLOOR / math.sqrt(3), rel=1e-6)


def test_a_mean_of_few_further_runs_needs_a_wider_interval():
    rates = [100.0, 101.0, 102.0]
    few, many, long = (this_session(rates, further=further) for further in (1, 10, math.inf))
    assert few
    assert many
    assert long
    assert few.half > many.half > long.half


@given(rates=RATES, factor=st.floats(0.01, 100))
def test_the_unit_of_a_rate_does_not_matter(rates: list[float], factor: float):
    first, second = this_session(rates), this_session([rate * factor for rate in rates])
    assert first is not None
    assert second is not None
    assert second.half == pytest.approx(first.half, rel=1e-6, abs=1e-9)
    assert second.center == pytest.approx(first.center + math.log(factor), abs=1e-9)


def test_one_run_says_nothing_of_a_machine_and_no_machine_nothing_of_its_kind():
    assert this_session([100.0]) is None
    assert another_machine([], Prior(1e-4, 3)) is None


@pytest.mark.parametrize(("sd", "most"), [(0.002, 0.998), (0.02, 0.965)])
def test_it_holds_what_it_promises_where_runs_alone_differ(sd: float, most: float):
    """2,000 draws; the sampling error of a share of 95 % is half a point, and the floor adds where noise is small."""
    draw = np.random.default_rng(7)
    held = 0
    for _ in range(2000):
        runs = np.exp(draw.normal(0, sd, 10))
        interval = this_session(list(runs[:3]), further=7)
        held += interval is not None and interval.holds(float(np.log(runs[3:]).mean()))
    assert 0.935 <= held / 2000 <= most


def test_the_spread_between_machines_is_found_again():
    draw = np.random.default_rng(3)
    kinds = [list(np.exp(draw.normal(0, sd, 6))) for sd in 0.015 * np.sqrt(6 / draw.chisquare(6, 300))]
    prior = machine_prior(kinds)
    assert math.sqrt(prior.variance) == pytest.approx(0.015, rel=0.1)
    assert 4 <= prior.degrees <= 9


def test_kinds_that_spread_alike_make_a_prior_that_is_worth_more():
    draw = np.random.default_rng(4)
    alike = [list(np.exp(draw.normal(0, 0.01, 6))) for _ in range(60)]
    unlike = [list(np.exp(draw.normal(0, sd, 6))) for sd in np.geomspace(0.001, 0.1, 60)]
    assert machine_prior(alike).degrees > 5 * machine_prior(unlike).degrees


def test_another_machine_is_less_sure_than_a_further_run():
    prior = Prior(0.014**2, 3)
    one, many = another_machine([100.0], prior), another_machine([100.0, 101.0, 99.0, 100.5], prior)
    assert one is not None
    assert many is not None
    assert one.half > many.half > 0
    assert another_machine([100.0], prior, level=0.5).half < one.half  # type: ignore[union-attr]


def test_ends_are_rates_around_the_center():
    low, high = LogInterval(math.log(100), 0.1, 0.95).ends
    assert low == pytest.approx(100 * math.exp(-0.1))
    assert high == pytest.approx(100 * math.exp(0.1))


@pytest.mark.parametrize(("rates", "level"), [([100.0, 0.0], 0.95), ([100.0, math.inf], 0.95), ([1.0, 2.0], 1.0)])
def test_what_is_no_rate_or_no_level_is_named(rates: list[float], level: float):
    with pytest.raises(ValueError, match="expected"):
        this_session(rates, level=level)


def test_too_few_kinds_make_no_prior():
    with pytest.raises(ValueError, match="3 kinds"):
        machine_prior([[1.0, 1.1], [2.0]])
