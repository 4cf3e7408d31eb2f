"""Time to a loss or an accuracy: steps from the loss curve, divided by the speed at each number of workers.

Accuracy is fitted as the loss 1 - accuracy with the same curve: an assumption, to be judged by its residuals. As in
Optimus, the global batch is constant, so that the steps do not depend on the workers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_models.fitting.least_squares import Array, FitError
from scalecurve_models.optimus.loss import LossFit, StepsToTarget, draws, fit_loss, steps_at
from scalecurve_models.optimus.speed import SpeedFit

_DRAWS = 4000
_LEAST = 1e-9


@dataclass(frozen=True)
class TimeToTarget:
    """Seconds to the target with ``workers`` and ``servers``; None where the fitted curve never reaches it."""

    workers: int
    servers: int
    seconds: float | None
    low: float | None
    high: float | None
    steps_per_s: float
    why: str = ""


def fit_accuracy(steps: Sequence[float], accuracies: Sequence[float], level: float = 0.95) -> LossFit:
    """The curve of 1 - accuracy, for ``steps_to(1 - target)``.

    Raises FitError for an accuracy outside [0, 1], or fewer than three steps.
    """
    for value in accuracies:
        if not 0 <= value <= 1:
            raise FitError(f"accuracy curve: accuracies must be in [0, 1], got {value:g}")
    return fit_loss(steps, [max(1 - value, _LEAST) for value in accuracies], level=level)


def steps_to_accuracy(fit: LossFit, target: float) -> StepsToTarget:
    """Steps to an accuracy, from a curve of ``fit_accuracy``. Raises FitError for a target outside (0, 1)."""
    if not 0 < target < 1:
        raise FitError(f"accuracy curve: target accuracy must be between 0 and 1, got {target:g}")
    reach = fit.steps_to(1 - target)
    if reach.steps is None:
        best = 1 - float(fit.values[2])
        return StepsToTarget(
            None, reach.low, None, f"the fitted accuracy flattens at {best:.4g}, below the target of {target:g}"
        )
    return reach


def time_to_target(
    loss: LossFit,
    speed: SpeedFit,
    target: float,
    workers: Sequence[int],
    servers: Sequence[int] = (1,),
    *,
    batch: float | None = None,
    level: float = 0.95,
) -> tuple[TimeToTarget, ...]:
    """One row per number of servers and of workers; the intervals combine both fits.

    Raises FitError for a target that is not positive, no workers or servers, or what ``SpeedFit.predict`` refuses.
    """
    if not workers or not servers:
        raise FitError("time to target: needs worker and server counts")
    reach = loss.steps_to(target)
    drawn_steps = _drawn_steps(loss, target)
    out = []
    for p in servers:
        for w in workers:
            rate = speed.speed(w, servers=p, batch=batch)
            if reach.steps is None:
                out.append(TimeToTarget(w, p, None, None, None, rate, reach.why))
                continue
            drawn = drawn_steps / speed.drawn(len(drawn_steps), w, servers=p, batch=batch)
            low, high = _limits(drawn, level) if loss.covariance is not None else (None, None)
            out.append(TimeToTarget(w, p, reach.steps / rate, low, high, rate))
    return tuple(out)


def best_workers(times: Sequence[TimeToTarget]) -> dict[int, TimeToTarget]:
    """The fastest row for every number of servers; none where the target is never reached."""
    out: dict[int, TimeToTarget] = {}
    for row in times:
        best = out.get(row.servers)
        if row.seconds is not None and (best is None or row.seconds < (best.seconds or math.inf)):
            out[row.servers] = row
    return out


def _drawn_steps(loss: LossFit, target: float) -> Array:
    values = draws(loss, _DRAWS)
    if len(values) == 1:
        values = np.repeat(values, _DRAWS, axis=0)
    return steps_at(values, target) + loss.first_step


def _limits(drawn: Array, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], method="nearest")
    return float(low), float(high)
