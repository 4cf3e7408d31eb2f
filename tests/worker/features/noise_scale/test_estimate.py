"""The gradient noise scale from squared norms, on gradients whose covariance is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scalecurve_worker.features.noise_scale.estimate import estimate, ratio_interval
from tests.worker.forked_ranks import fork_ranks
from tests.worker.worker_ranks import SCRIPTS

Norms = tuple[list[float], list[float]]


def norms(
    gradient: NDArray[np.float64], deviations: NDArray[np.float64], batch: int, workers: int, steps: int, seed: int
) -> Norms:
    """Squared norms of steps of workers whose samples' gradients are N(gradient, diag(deviations^2))."""
    draw = np.random.default_rng(seed)
    shape = (steps, workers, len(gradient))
    local = gradient + draw.standard_normal(shape) * deviations / math.sqrt(batch)
    small = np.square(local).sum(axis=2).mean(axis=1)
    large = np.square(local.mean(axis=1)).sum(axis=1)
    return small.tolist(), large.tolist()


@given(
    dimension=st.integers(1, 40),
    batch=st.integers(1, 64),
    workers=st.integers(2, 8),
    spread=st.floats(0.1, 10),
    seed=st.integers(0, 10_000),
)
def test_both_are_unbiased(dimension: int, batch: int, workers: int, spread: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    gradient, deviations = draw.standard_normal(dimension), spread * draw.uniform(0.1, 1, dimension)
    runs, steps = 60, 20
    found = []
    for run in range(runs):
        row = estimate(1, batch, batch * workers, *norms(gradient, deviations, batch, workers, steps, seed + run))
        assert row is not None
        found.append((row.gradient2, row.trace))
    for values, truth in zip(np.array(found).T, (np.square(gradient).sum(), np.square(deviations).sum()), strict=True):
        # Six standard errors of the mean over the runs: 2e-9 if they were normal, and t with 59 degrees 1e-7.
        assert abs(values.mean() - truth) < 6 * values.std(ddof=1) / math.sqrt(runs) + 1e-9 * truth


def test_the_interval_holds_the_ratio_as_often_as_it_says() -> None:
    gradient, deviations = np.full(30, 0.2), np.full(30, 2.0)
    truth = float(np.square(deviations).sum() / np.square(gradient).sum())
    held = told = 0
    for run in range(400):
        row = estimate(1, 16, 64, *norms(gradient, deviations, 16, 4, 60, run))
        assert row is not None
        if row.simple_low is not None and row.simple_high is not None:
            told += 1
            held += row.simple_low <= truth <= row.simple_high
    # Of all 400 about 95 % hold it; where there is no interval, nothing wrong is said.
    assert told > 100
    assert held + 400 - told > 400 * 0.95 - 4 * math.sqrt(400 * 0.95 * 0.05)


def test_without_a_gradient_there_is_no_ratio() -> None:
    told = 0
    for run in range(100):
        row = estimate(1, 4, 8, *norms(np.zeros(10), np.ones(10), 4, 2, 50, run))
        assert row is not None
        assert (row.simple is None) == (row.simple_low is None) == (row.simple_high is None)
        told += row.simple is not None
    # One side of a 95 % interval.
    assert told <= 10


def test_by_hand() -> None:
    # |G_8|^2 = 3, |G_32|^2 = 2: |G|^2 = (32*2 - 8*3)/24 = 5/3, tr = (3-2)/(1/8-1/32) = 32/3.
    row = estimate(2, 8, 32, [3.0, 3.0, 3.0, float("nan")], [2.0, 2.0, 2.0, 1.0])
    assert row is not None
    assert (row.epoch, row.steps, row.small_norm2, row.large_norm2) == (2, 3, 3.0, 2.0)
    assert row.gradient2 == pytest.approx(5 / 3)
    assert row.trace == pytest.approx(32 / 3)
    assert row.simple == pytest.approx(6.4)
    assert (row.simple_low, row.simple_high) == (pytest.approx(6.4), pytest.approx(6.4))
    assert estimate(1, 8, 32, [float("inf")], [1.0]) is None
    with pytest.raises(ValueError, match="batches of 8 and 8"):
        estimate(1, 8, 8, [1.0], [1.0])


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=3, max_size=20),
    st.floats(0.01, 100),
)
def test_an_interval_holds_its_ratio_and_follows_the_unit(pairs: Sequence[tuple[float, float]], unit: float) -> None:
    over, under = [a for a, _ in pairs], [b for _, b in pairs]
    bounds = ratio_interval(over, under)
    if bounds is None:
        return
    ratio = math.fsum(over) / math.fsum(under)
    slack = 1e-6 * (1 + max(map(abs, bounds)))
    assert bounds[0] - slack <= ratio <= bounds[1] + slack
    scaled = ratio_interval([unit * value for value in over], under)
    assert scaled is not None
    assert scaled[0] == pytest.approx(unit * bounds[0], rel=1e-6, abs=unit * slack)


@pytest.mark.processes
@pytest.mark.parametrize(("workers", "parts"), [(2, 1), (2, 2), (1, 3)])
def test_what_is_measured_is_what_the_gradients_are(tmp_path: Path, workers: int, parts: int) -> None:
    fork_ranks(tmp_path, workers, SCRIPTS / "noise_meter.py", str(parts))
