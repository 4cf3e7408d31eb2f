"""Coverage of two and three repetitions of every point, by the points of their curve; called by `coverage`.

Within one session. Beside what is used stands the other rule: of two repetitions that of before, where the larger
variance of a point and its curve counted on its own degrees of freedom, and Welch's t for efficiency; of three what
they would be if they were treated as two are (`spread.of_two`). The rule's limits were chosen on seed 1 of the noises
of `session_noise`; extreme values, and every other seed, were drawn once they were fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.session_noise import NOISES, Noise
from scalecurve.statistics.estimate import Estimate, Method, RepetitionTotals
from scalecurve.statistics.intervals import efficiency, positive, throughput
from scalecurve.statistics.spread import Point, Spread, larger, pooled, weighted_mean

SD = 0.005
POINTS = (3, 4, 6)
UNSEEN = Noise("extreme values (Gumbel)", tails=lambda rng, shape: (rng.gumbel(size=shape) - 0.5772) / 1.2825)


@dataclass
class Found:
    """What one kind of interval came to."""

    hits: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, estimate: Estimate, truth: float) -> None:
        self.hits += estimate.covers(truth)
        self.widths.append(math.inf if estimate.half_width is None else estimate.half_width / estimate.value)

    def __str__(self) -> str:
        known = sum(map(math.isfinite, self.widths))
        covered = 100 * self.hits / known
        mark = " " if 93 <= covered <= 97 else "*"
        unknown = 100 * (1 - known / len(self.widths))
        return f"{covered:8.1f}{mark}{unknown:5.1f}{100 * float(np.median(self.widths)):7.2f}"


def print_few(draws: int, seed: int) -> None:
    """One row for each noise, number of repetitions and of points."""
    for repetitions, other in ((2, "before"), (3, "as two are")):
        names = ("throughput", other, "efficiency", other)
        print(f"   {f'{repetitions} repetitions':33}{'points':>7}" + "".join(f"{name:>21}" for name in names))
        print(f"   {'':40}" + f"{'%':>8}{'?':>6}{'width':>7}" * len(names))
        for noise, growth in _noises():
            name = noise.name if growth == 1 else f"{noise.name}, sd x {growth:.1f} a point"
            for points in POINTS:
                row = _drawn(noise, [growth**at for at in range(points)], repetitions, draws, seed)
                print(f"   {name:33}{points:7}" + "".join(map(str, row)), flush=True)


def _noises() -> Iterator[tuple[Noise, float]]:
    yield from ((noise, 1.0) for noise in (*NOISES, UNSEEN))
    yield from ((NOISES[0], growth) for growth in (2**0.5, 2.0))


def _drawn(noise: Noise, growth: Sequence[float], repetitions: int, draws: int, seed: int) -> tuple[Found, ...]:
    rng, found = np.random.default_rng(seed), tuple(Found() for _ in range(4))
    for _ in range(draws):
        times, slow = noise.draw(rng, (len(growth), repetitions), SD * np.array(growth)[:, None])
        curve = [[RepetitionTotals((100.0,), (wall,)) for wall in walls] for walls in times.tolist()]
        shared, base, last = pooled(curve), curve[0], curve[-1]
        assert shared is not None
        rate, ratio = throughput(last, noise=shared), efficiency(last, base, 1, 1, noise=shared)
        if repetitions == 2:
            whole = Spread(shared.variance / 2, shared.degrees)
            rates = _with(rate, larger(0.95, 1, _own(last), whole))
            ratios = efficiency(last, base, 1, 1)
        else:
            sides = [max(_own(point).variance, shared.variance / repetitions) for point in (last, base)]
            rates, ratios = (_with(e, Spread(v, shared.degrees)) for e, v in ((rate, sides[0]), (ratio, sum(sides))))
        truth = 100 / noise.shown(slow)
        for each, estimate, true in zip(found, (rate, rates, ratio, ratios), (truth, truth, 1, 1), strict=True):
            each.add(estimate, true)
    return found


def _own(point: Point) -> Spread:
    logs = [math.log(repetition.total_wall_s) for repetition in point]
    return weighted_mean(logs, [1 / len(logs)] * len(logs))


def _with(estimate: Estimate, spread: Spread | None) -> Estimate:
    return positive(estimate.value, spread, 0.95, Method.REPETITIONS, estimate.repetitions, 1)
