"""Rungs of a search, who passes them, and how the winner compares with that of the full grid in simulations."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from scalecurve.features.search.halving import FINALISTS, KEEP, passed, quota, rungs
from scalecurve.planning.candidates import key_of
from scalecurve.statistics.estimate import RepetitionTotals
from scalecurve.statistics.intervals import throughput
from scalecurve_api.spec.measure import Repeated
from scalecurve_api.spec.trial import Point

DRAWS, LAYOUTS, REPETITION_SD, WINDOW_SD = 20, 48, 0.01, 0.01


def point(index: int) -> Point:
    return Point(
        mode="strong", workers=4, nodes=1, workers_per_node=4, axes={"env.N": str(index)}, series="s", name=f"p{index}"
    )


def trial(random: Random, rate: float, windows: int, steps: int) -> RepetitionTotals:
    session = random.gauss(0, REPETITION_SD)
    walls = [steps / rate * (1 + session + random.gauss(0, WINDOW_SD)) for _ in range(windows)]
    return RepetitionTotals.of([float(steps)] * windows, walls)


@given(candidates=st.integers(1, 1000), windows=st.integers(1, 20), steps=st.integers(1, 500))
def test_rungs_grow_in_steps_and_end_at_the_finalists(candidates: int, windows: int, steps: int) -> None:
    made = rungs(candidates, Repeated(windows=windows, steps_per_window=steps))
    assert bool(made) == (candidates > FINALISTS)
    left = candidates
    for rung in made:
        assert (rung.entrants, rung.passes) == (left, quota(left))
        assert rung.windows <= windows
        left = rung.passes
    assert left <= FINALISTS
    lengths = [rung.steps_per_window for rung in made]
    assert lengths == sorted(lengths)
    assert all(rung.steps_per_window * rung.windows <= windows * steps + 3 * rung.windows for rung in made)


def test_the_fastest_pass_and_as_many_again_that_may_equal_the_best() -> None:
    members = [point(index) for index in range(16)]
    still = {key_of(p): [RepetitionTotals.of([10.0] * 3, [10 / (100 - i)] * 3)] for i, p in enumerate(members)}
    assert passed(members, still) == members[: 16 // KEEP]
    random = Random(0)
    noisy = {key_of(p): [trial(random, 100, 3, 10)] for p in members}
    assert 16 // KEEP < len(passed(members, noisy)) <= 2 * (16 // KEEP)
    assert passed(members, {key_of(members[9]): still[key_of(members[9])]}) == [members[9]]
    assert passed(members, {}) == []


def test_the_winner_is_that_of_the_full_grid_or_within_noise() -> None:
    """48 layouts, rates that differ by a fifth (standard deviation), full trials three times; in 19 of 20 draws."""
    measure = Repeated(windows=5, steps_per_window=50, repetitions=3, exposed_communication=False)
    members = [point(index) for index in range(LAYOUTS)]
    equal, shares = 0, []
    for draw in range(DRAWS):
        random = Random(draw)
        rates = {key_of(p): random.lognormvariate(5, 0.2) for p in members}
        full = (measure.warmup_steps + measure.windows * measure.steps_per_window) * measure.repetitions
        left, cost = members, 0.0
        for rung in rungs(LAYOUTS, measure):
            samples = {key_of(p): [trial(random, rates[key_of(p)], rung.windows, rung.steps_per_window)] for p in left}
            cost += sum((5 + rung.windows * rung.steps_per_window) / rates[key] for key in samples)
            left = passed(left, samples)
        finals = {key_of(p): [trial(random, rates[key_of(p)], 5, 50) for _ in range(3)] for p in left}
        cost += sum(full / rates[key] for key in finals)
        winner = max(finals, key=lambda key: throughput(finals[key]).value)
        equal += rates[winner] >= max(rates.values()) * (1 - 2 * REPETITION_SD)
        shares.append(cost / sum(full / rate for rate in rates.values()))
    assert equal >= 19
    assert max(shares) <= 0.4, shares
