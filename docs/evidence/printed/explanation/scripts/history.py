"""How often `scalecurve history` alarms for nothing, and finds what changed.

    python docs/evidence/printed/explanation/scripts/history.py [--draws 400] [--seed 1]

On simulated sessions of one experiment with six points (their sessions' noise is common but for a fifth of it): false
alarms per experiment under several distributions, and detection, place and size of one change.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

SESSION_SD, OWN_SHARE, POINTS = 0.005, 0.2, 6
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
NOISES: tuple[tuple[str, Draw], ...] = (
    ("normal", np.random.Generator.standard_normal),
    ("heavy tails (t, 3 degrees)", lambda rng, shape: rng.standard_t(3, shape)),
    ("skewed (exponential)", lambda rng, shape: rng.standard_exponential(shape) - 1),
    (
        "two kinds of machines, 1 % apart",
        lambda rng, shape: 2 * (rng.random(shape) < 0.3) + 0.3 * rng.normal(size=shape),
    ),
)


def drawn(rng: np.random.Generator, draw: Draw, sessions: int, at: int | None = None, change: float = 1.0) -> Array:
    """The log throughput of each point and session; `change` from session `at` on at half of the points."""
    shared, own = draw(rng, (1, sessions)), draw(rng, (POINTS, sessions))
    values = SESSION_SD * (shared + OWN_SHARE * own)
    if at is not None:
        values[: POINTS // 2, at:] += math.log(change)
    return np.asarray(values)


def print_false_alarms(draws: int, seed: int) -> None:
    from scalecurve.statistics.change_points import change_points

    print(f"False alarms: % of experiments without a change that show one (stated: 5 %), {draws} draws each")
    counts = (10, 20, 50)
    print(f"   {'noise of sessions':36}" + "".join(f"{f'{count} sessions':>14}" for count in counts))
    for name, draw in NOISES:
        cells = []
        for count in counts:
            rng = np.random.default_rng(seed)
            alarms = sum(bool(change_points(drawn(rng, draw, count).tolist())) for _ in range(draws))
            cells.append(f"{100 * alarms / draws:14.1f}")
        print(f"   {name:36}" + "".join(cells), flush=True)


def print_detection(draws: int, seed: int) -> None:
    from scalecurve.statistics.change_points import change_points

    print(f"\nDetection: one change in mid-history at three of six points, session sd {SESSION_SD:.1%}, {draws} draws")
    print(
        f"   {'sessions':>8}{'change':>9}{'found at a point':>18}{'place covered':>15}{'size covered':>14}"
        f"{'other points':>14}"
    )
    for count in (10, 20, 50):
        for change in (0.99, 0.98, 0.97):
            rng = np.random.default_rng(seed)
            found = place = size = others = 0
            for _ in range(draws):
                at = count // 2
                changes = change_points(drawn(rng, np.random.Generator.standard_normal, count, at, change).tolist())
                first = {c.curve: c for c in reversed(changes) if c.curve < POINTS // 2}
                found += len(first)
                place += sum(c.first <= at <= c.last for c in first.values())
                size += sum(c.ratio.covers(change) for c in first.values())
                others += any(c.curve >= POINTS // 2 for c in changes)
            share = [100 * found / draws / (POINTS // 2), *(100 * n / max(1, found) for n in (place, size))]
            row = "".join(f"{cell:{width}.1f}" for cell, width in zip(share, (18, 15, 14), strict=True))
            print(f"   {count:8}{change - 1:9.0%}{row}{100 * others / draws:14.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print_false_alarms(arguments.draws, arguments.seed)
    print_detection(arguments.draws, arguments.seed)


if __name__ == "__main__":
    main()
