"""Coverage under six kinds of noise between repetitions, over one and several sessions; called by `coverage`.

A curve of 1, 2, 4 and 8 workers is drawn; every repetition of every point has the noise. What a session adds is common
to its points (sd 0.5 %) but for a fifth of it. Slow repetitions take 5 % longer (bimodal) or 10-30 % (one in ten).

The report makes two statements, and both are held against what was drawn: an interval of the kinds of runs that were
shown, and the largest share that a kind may have which never was (`kinds.unseen_share`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scalecurve.statistics.comparison import KNOWN, Pair, between_sessions, changes
from scalecurve.statistics.estimate import Estimate, RepetitionTotals
from scalecurve.statistics.intervals import efficiency, throughput
from scalecurve.statistics.kinds import unseen_share
from scalecurve.statistics.prior import SESSIONS
from scalecurve.statistics.spread import Point, Spread, pooled
from scalecurve_api.planning.precision import LEAST, enough

WORKERS = (1, 2, 4, 8)
SESSION_SD = 0.005
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """`share` of the repetitions take `slow` (relative) longer, `tails` is the shape of the rest."""

    name: str
    share: float = 0.0
    slow: tuple[float, float] = (0.05, 0.05)
    tails: Callable[[np.random.Generator, tuple[int, ...]], Array] = np.random.Generator.standard_normal

    def draw(
        self, rng: np.random.Generator, shape: tuple[int, ...], sd: float | Array
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Relative times, and which are slow."""
        rest = self.tails(rng, shape)
        slow = rng.random(shape) < self.share
        return np.exp(sd * rest) * (1 + slow * rng.uniform(*self.slow, shape)), slow

    @property
    def long_run(self) -> float:
        """Mean time of all repetitions over that of the usual ones."""
        return 1 + self.share * sum(self.slow) / 2

    def shown(self, slow: NDArray[np.bool_]) -> float:
        """The same over the kinds that are among these repetitions."""
        if slow.all():
            return 1 + sum(self.slow) / 2
        return self.long_run if slow.any() else 1.0

    def unseen(self, slow: NDArray[np.bool_]) -> float:
        """The share of slower runs, where none is among these repetitions."""
        return 0.0 if slow.any() else self.share


NOISES = (
    Noise("log-normal"),
    Noise("heavy tails (t, 3 degrees)", tails=lambda rng, shape: rng.standard_t(3, shape)),
    Noise("skewed (exponential)", tails=lambda rng, shape: rng.standard_exponential(shape) - 1),
    Noise("bimodal 50/50, 5 % apart", 0.5),
    Noise("bimodal 80/20, 5 % apart", 0.2),
    Noise("one in ten slow by 10-30 %", 0.1, (0.1, 0.3)),
)


def print_noises(draws: int, seed: int) -> None:
    print(
        "   ?: % of draws without an interval, 'not known'; coverage is of those with one, * outside 93-97.\n"
        "   throughput at 8 workers is that of the kinds of runs that the curve shows, 'one point' the efficiency if\n"
        "   all other points are quiet, of the kinds that this point shows. bound: % of draws in which no slower kind\n"
        "   that is not shown has a larger share than the report states. all runs: coverage if unseen ones counted.\n"
    )
    print(f"   {'':49}{'efficiency,':>14}{'':>6}{'throughput':>34}{'':>6}{'one point':>22}")
    print(
        f"   {'noise':28}{'sessions':>9}{'reps':>5}{'sd':>7}{'speed-up':>14}{'?':>6}"
        + f"{'shown':>12}{'?':>6}{'bound':>8}{'all runs':>10}" * 2
    )
    for noise in NOISES:
        for sessions in (1, 3):
            for repetitions in (3, 5, 12):
                for sd in (0.001, 0.005):
                    print(_row(noise, sessions, repetitions, sd, draws, seed), flush=True)


def print_shares(draws: int, seed: int) -> None:
    """A method that does not know how many runs are slow must hold for every share: the least coverage decides."""
    print(f"   {'sessions':>11}{'reps':>5}" + "".join(f"{f'{share:.0%} slow':>15}" for share in _SHARES))
    for sessions in (1, 3):
        for repetitions in (3, 5, 12):
            cells = [_drawn(Noise("", share), sessions, repetitions, 0.001, draws, seed) for share in _SHARES]
            row = "".join(f"{cell.effective.covered:8.1f}{cell.rates.covered:7.1f}" for cell in cells)
            print(f"   {sessions:11}{repetitions:5}{row}", flush=True)


_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65)


def _row(noise: Noise, sessions: int, repetitions: int, sd: float, draws: int, seed: int) -> str:
    drawn = _drawn(noise, sessions, repetitions, sd, draws, seed)
    row = f"   {noise.name:28}{sessions:9}{repetitions:5}{sd * 100:6.1f}%{drawn.effective:13}"
    for shown, bound, every in (
        (drawn.rates, drawn.bound, drawn.long_run),
        (drawn.alone, drawn.alone_bound, drawn.alone_long_run),
    ):
        row += f"{shown:12}" + (
            f"{100 * bound / draws:8.1f}{every.covered:10.1f}" if noise.share else f"{'-':>8}{'-':>10}"
        )
    return row


def _drawn(noise: Noise, sessions: int, repetitions: int, sd: float, draws: int, seed: int) -> _Drawn:
    rng = np.random.default_rng(seed)
    drawn = _Drawn()
    for _ in range(draws):
        times, slow = noise.draw(rng, (len(WORKERS), sessions, repetitions), sd)
        shifts = _sessions(rng, sessions)
        points = [_point(at * shift[:, None]) for at, shift in zip(times, shifts, strict=True)]
        rate = throughput(points[-1], noise=pooled(points))
        drawn.effective.add(efficiency(points[-1], points[0], 8, 1), 1 / 8)
        drawn.rates.add(rate, 100 / noise.shown(slow))
        drawn.long_run.add(rate, 100 / noise.long_run)
        drawn.bound += noise.unseen(slow) <= unseen_share(slow.size)
        quiet = _point(np.exp(sd * rng.standard_normal(times[0].shape)) * shifts[0][:, None])
        single = efficiency(points[-1], quiet, 8, 1)
        drawn.alone.add(single, 1 / 8 / noise.shown(slow[-1]))
        drawn.alone_long_run.add(single, 1 / 8 / noise.long_run)
        drawn.alone_bound += noise.unseen(slow[-1]) <= unseen_share(slow[-1].size)
    return drawn


class _Share:
    """Covered, given and not known."""

    def __init__(self) -> None:
        self.draws, self.given, self.hits = 0, 0, 0

    def add(self, estimate: Estimate, truth: float) -> None:
        self.draws += 1
        self.given += estimate.low is not None
        self.hits += estimate.covers(truth)

    @property
    def covered(self) -> float:
        return 100 * self.hits / self.given if self.given else math.nan

    def __format__(self, width: str) -> str:
        mark = " " if 93 <= self.covered <= 97 else "*"
        return f"{self.covered:{width}.1f}{mark}{100 * (1 - self.given / self.draws):5.1f}"


@dataclass
class _Drawn:
    """What the draws of one row came to."""

    effective: _Share = field(default_factory=_Share)
    rates: _Share = field(default_factory=_Share)
    long_run: _Share = field(default_factory=_Share)
    alone: _Share = field(default_factory=_Share)
    alone_long_run: _Share = field(default_factory=_Share)
    bound: int = 0
    alone_bound: int = 0


def _sessions(rng: np.random.Generator, count: int) -> Array:
    """The factor of every point and session; one session has none, for its intervals hold within it only."""
    if count == 1:
        return np.ones((len(WORKERS), 1))
    shared, own = rng.standard_normal((1, count)), rng.standard_normal((len(WORKERS), count))
    return np.asarray(np.exp(SESSION_SD * (shared + 0.2 * own)))


def _point(times: Array, first: int = 0) -> Point:
    """A point from the times of its repetitions, shape (sessions, repetitions)."""
    rows = times.tolist()
    return [RepetitionTotals((100.0,), (wall,), first + k) for k, walls in enumerate(rows) for wall in walls]


def print_stopping(draws: int, seed: int) -> None:
    """One session, both sides repeated until efficiency is known to the target."""
    print(f"   {'noise':28}" + "".join(f"{f'target {t * 100:g} %':>22}" for t in (0.005, 0.01, 0.02)) + "  (mean reps)")
    for noise in NOISES:
        cells = []
        for target in (0.005, 0.01, 0.02):
            rng = np.random.default_rng(seed)
            held, used, most = 0, 0, 12
            for _ in range(draws):
                times, _ = noise.draw(rng, (2, most), 0.005)
                for count in range(LEAST - 2, most + 1):
                    first, second = times[:, :count].tolist()
                    if enough([first], [second], target, most).enough:
                        break
                held += efficiency(_point(times[:1, :count]), _point(times[1:, :count]), 1, 1).covers(1.0)
                used += count
            cells.append(f"{100 * held / draws:14.1f} ({used / draws:4.1f})")
        print(f"   {noise.name:28}" + "".join(cells), flush=True)


def print_alarms(draws: int, seed: int) -> None:
    """Equal bundles in other sessions, three repetitions each: how often `compare` calls one of four points changed."""
    between = Spread(SESSION_SD**2, KNOWN)
    cases: tuple[tuple[str, int, int, Callable[[list[Point]], Spread | None]], ...] = (
        ("one session each", 1, 1, lambda history: None),
        ("one session each, history of 3 sessions", 1, 1, between_sessions),
        ("one session each, --session-sd 0.5%", 1, 1, lambda history: between),
        ("2 sessions each", 2, 2, lambda history: None),
        ("3 sessions each", 3, 3, lambda history: None),
        ("3 sessions against one", 3, 1, lambda history: None),
    )
    print(f"   {'':44}{'alarms':>8}{'undecided':>11}{'smallest detectable change':>28}")
    for name, first, second, known in cases:
        rng = np.random.default_rng(seed)
        alarms, undecided, sizes = 0, 0, []
        for _ in range(draws):
            shifts = SESSION_SD * rng.standard_normal(first + second + 3)  # common to the points of a session
            pairs = []
            for _ in WORKERS:
                times = np.exp(shifts[:, None] + 0.001 * rng.standard_normal((len(shifts), 3)))
                before, after = _point(times[:first]), _point(times[first : first + second])
                history = [_point(times[at : at + 1]) for at in range(first + second, len(shifts))]
                pairs.append(Pair(before, after, between=known(history)))
            found = changes(pairs, threshold=0)
            alarms += any(change.changed for change in found)
            undecided += all(change.changed is None for change in found)
            sizes += [change.detectable for change in found if change.detectable is not None]
        size = f"{100 * float(np.median(sizes)):.1f} %" if sizes else "-"
        print(f"   {name:44}{100 * alarms / draws:8.1f}{100 * undecided / draws:11.1f}{size:>28}", flush=True)


def print_prior(draws: int, seed: int) -> None:
    """One session a side, decided by the prior: false alarms and power, also where sessions differ by another spread.

    A gate is red at once only far beyond the prior; else when a fresh session fails at the same point, too.
    """
    sizes = (0.01, 0.02, 0.03, 0.05, 0.1)
    print(f"   {'':24}{'equal: called changed':>42}{'gate of equal':>16}{'slower, found by compare':>36}")
    print(
        f"   {'sessions differ by':24}{'one point':>12}{'4 alike':>12}{'4 apart':>12}{'once':>12}{'red':>7}"
        + "".join(f"{100 * size:6g} %" for size in sizes)
        + "   red at 3, 5, 10 %"
    )
    for sd in (None, 0.003, 0.009, 0.014):
        rng = np.random.default_rng(seed)
        one, alike, apart = (
            gate_alarms(rng, sd, draws, points, shared) for points, shared in ((1, False), (4, True), (4, False))
        )
        found = [gate_alarms(rng, sd, draws, 1, False, slower=size) for size in sizes]
        name = "as the prior says" if sd is None else f"{100 * sd:.1f} %"
        equal = f"{one.changed:12.1f}{alike.changed:12.1f}{apart.changed:12.1f}{apart.once:12.1f}{apart.red:7.1f}"
        lost = "".join(f"{each.changed:8.1f}" for each in found)
        red = ", ".join(f"{each.red:.1f}" for each in found[2:])
        print(f"   {name:24}{equal}{lost}   {red}", flush=True)


@dataclass
class GateAlarms:
    """In % of the draws: a point called changed from one session, failed once, and red with the fresh session."""

    changed: float
    once: float
    red: float


def gate_alarms(
    rng: np.random.Generator, sd: float | None, draws: int, points: int, shared: bool, slower: float = 0.0
) -> GateAlarms:
    """Three repetitions that differ by 0.1 %; what a session adds is common to the points, or each one's own."""
    changed = once = red = 0
    for _ in range(draws):
        each = 1 if shared else points
        drawn = np.sqrt(SESSIONS.variance * SESSIONS.degrees / rng.chisquare(SESSIONS.degrees, each))
        shifts = (drawn if sd is None else sd) * rng.standard_normal((3, each))
        times = np.exp(shifts[:, :, None] + 0.001 * rng.standard_normal((3, points, 3)))
        times[1:] /= 1 - slower
        sides = [(_point(times[:1, at]), _point(times[1:, at], first=1)) for at in range(points)]
        first = changes([Pair(before, after[:3]) for before, after in sides])
        changed += any(change.changed for change in changes([Pair(b, a[:3]) for b, a in sides], threshold=0))
        failed = [change for change in first if change.past_threshold and change.slower]
        once += bool(failed)
        if any(change.confirmed for change in failed):
            red += 1
        elif failed:
            again = changes([Pair(*side) for side in sides])
            red += any(change.past_threshold and change.slower and change.confirmed for change in again)
    return GateAlarms(*(100 * each / draws for each in (changed, once, red)))
