"""Synthetic points of known truth, to measure how often an interval covers it (`benchmarks/coverage.py` too).

One step takes `step_s · exp(b) · (1 + x)` seconds: b is normal, the same for a whole repetition (placement, clocks,
neighbors) with E exp(b) = 1, and x is a stationary AR(1) series of standard deviation `step_cv` with right-skewed
(exponential) or normal innovations. The true throughput is therefore `samples_per_step / step_s`, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scalecurve.statistics.estimate import RepetitionTotals

BURN_IN = 200


@dataclass(frozen=True, slots=True)
class SyntheticPoint:
    """How a point's trials behave. `windows` holds, for each repetition, the steps of each of its windows."""

    windows: tuple[tuple[int, ...], ...] = ((50,) * 5,) * 3
    step_s: float = 0.1
    samples_per_step: float = 256.0
    step_cv: float = 0.1
    autocorrelation: float = 0.6
    repetition_cv: float = 0.01
    noise: Literal["skewed", "normal"] = "skewed"

    @property
    def throughput(self) -> float:
        """The truth, in samples per second."""
        return self.samples_per_step / self.step_s

    def draws(self, count: int, seed: int) -> Iterator[tuple[RepetitionTotals, ...]]:
        """`count` independent sets of repetitions, the same for the same seed."""
        rng = np.random.default_rng(seed)
        walls = [self._wall_times(rng, count, lengths) for lengths in self.windows]
        samples = [tuple(self.samples_per_step * length for length in lengths) for lengths in self.windows]
        for draw in range(count):
            yield tuple(
                RepetitionTotals(counts, tuple(wall[draw].tolist()))
                for counts, wall in zip(samples, walls, strict=True)
            )

    def steps(self, count: int, steps: int, seed: int) -> NDArray[np.float64]:
        """`count` runs of consecutive step times, shape (count, steps), in seconds."""
        rng = np.random.default_rng(seed)
        noise = self._series(rng, count, steps)
        sigma = np.sqrt(np.log1p(self.repetition_cv**2))
        shared = np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)
        return np.asarray(self.step_s * shared[:, None] * (1 + noise))

    def _wall_times(self, rng: np.random.Generator, count: int, lengths: tuple[int, ...]) -> NDArray[np.float64]:
        steps = self.steps(count, sum(lengths), int(rng.integers(2**32)))
        starts = np.cumsum((0, *lengths[:-1]))
        return np.asarray(np.add.reduceat(steps, starts, axis=1))

    def _series(self, rng: np.random.Generator, count: int, steps: int) -> NDArray[np.float64]:
        """AR(1) by running over time, all draws at once; shape (count, steps)."""
        shape = (steps + BURN_IN, count)
        skewed = self.noise == "skewed"
        series = rng.standard_exponential(shape) - 1 if skewed else rng.standard_normal(shape)
        for now in range(1, len(series)):
            series[now] += self.autocorrelation * series[now - 1]
        return np.asarray(series[BURN_IN:].T * (self.step_cv * np.sqrt(1 - self.autocorrelation**2)))
