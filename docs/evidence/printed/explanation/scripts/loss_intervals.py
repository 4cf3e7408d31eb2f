"""How often do the intervals of loss fits hold, and how far off are coefficients, over a wide range of true curves?

    python docs/evidence/printed/explanation/scripts/loss_intervals.py [CURVES]     # the table of docs/explanation/models.md; 600 curves by default

True curves are l(k) = 1/(b0·k + b1) + b2 with a first loss of 1 to 12, a floor of 0 to 80 % of it, and a run that
is 0.5 to 50 times as long as the steps in which what is above the floor halves; 20 to 500 points with 0.5 to 10 %
of noise in proportion to the loss. All are drawn evenly over their logarithms, but for the floor.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from scalecurve_models.optimus.loss import fit_loss

NAMES = ("b0", "b1", "b2")
LENGTHS = ((0.5, 2.0), (2.0, 10.0), (10.0, 50.0))  # of a run, in halvings
STEPS = 10_000.0


def drawn(rng: np.random.Generator, low: float, high: float) -> float:
    """Evenly over its logarithm."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def one(rng: np.random.Generator, length: tuple[float, float]) -> tuple[list[float], list[bool | None], bool | None]:
    """Relative errors of the coefficients (of b2: in first losses), whether their intervals hold, and whether that of
    the steps to half of the way from the last loss to the floor does; None without an interval."""
    first, floor = drawn(rng, 1, 12), rng.uniform(0, 0.8)
    above = first * (1 - floor)
    halving = STEPS / drawn(rng, *length)
    truth = (1 / (above * halving), 1 / above, first * floor)
    steps = np.sort(rng.uniform(0, STEPS, int(drawn(rng, 20, 500))))
    losses = 1 / (truth[0] * steps + truth[1]) + truth[2]
    losses = losses * np.exp(drawn(rng, 0.005, 0.1) * rng.standard_normal(len(steps)))
    fit = fit_loss(steps.tolist(), losses.tolist())
    errors, holds = [], []
    for parameter, true in zip(fit.parameters, truth, strict=True):
        scale = first if parameter.name == "b2" else true
        errors.append(np.inf if parameter.value is None else abs(parameter.value - true) / scale)
        low, high = parameter.low, parameter.high
        holds.append(None if low is None or high is None else low <= true <= high)
    target = truth[2] + 0.5 / (truth[0] * STEPS + truth[1])
    needed = (1 / (target - truth[2]) - truth[1]) / truth[0]
    found = fit.steps_to(target)
    ahead = None if found.low is None else found.low <= needed <= (np.inf if found.high is None else found.high)
    return errors, holds, ahead


def share(holds: Sequence[bool | None]) -> str:
    """Of those with an interval, and how many have none."""
    known = [each for each in holds if each is not None]
    return f"{np.mean(known):.1%}" if known else ""


def main() -> None:
    """Print a row for each length of run."""
    curves = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    rng = np.random.default_rng(5)
    print("| run, in halvings | curves | b0 median, 95th | b1 | b2 | intervals hold b0, b1, b2 | none | steps ahead |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for length in LENGTHS:
        results = [one(rng, length) for _ in range(curves // len(LENGTHS))]
        errors = np.array([each[0] for each in results])
        median, high = np.quantile(errors, [0.5, 0.95], axis=0)
        cells = [f"{a:.1%}, {b:.0%}" for a, b in zip(median, high, strict=True)]
        held = ", ".join(share([each[1][at] for each in results]) for at in range(3))
        none = sum(None in each[1] for each in results)
        ahead = share([each[2] for each in results])
        print(f"| {length[0]:g}-{length[1]:g} | {len(results)} | {' | '.join(cells)} | {held} | {none} | {ahead} |")


if __name__ == "__main__":
    main()
