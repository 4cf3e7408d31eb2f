"""The loss curve of Optimus (Peng et al., EuroSys 2018, Eq. 1): l(k) = 1/(b0 k + b1) + b2 with b0, b1, b2 >= 0."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalecurve.statistics.intervals import student_quantile
from scalecurve_models.fitting.least_squares import (
    EXACT,
    NEAR_ZERO,
    NOT_IDENTIFIABLE,
    SAME,
    Array,
    FitError,
    Parameter,
    collinear_note,
    positive_array,
    require_points,
    same_length,
)
from scalecurve_models.optimus.curve import Noise, curve, gradient, near_curve, solve
from scalecurve_models.optimus.thinning import MOST_POINTS, WINDOW, thinned, without_outliers

NAMES = ("b0", "b1", "b2")
UNITS = ("1/step", "", "")
MODEL = "loss curve"
Weighting = Literal["even", "late"]
_DRAWS = 4000
_ROUNDS = 8
_MOST_DROPPED = 0.05
_FEWEST_KEPT = 10
_SMALLEST = 1e-9


@dataclass(frozen=True)
class StepsToTarget:
    """Steps to a loss; ``steps`` is None where the fitted curve never reaches it, and ``why`` says so.

    ``high`` is infinite where the points do not exclude that it is never reached.
    """

    steps: float | None
    low: float | None
    high: float | None
    why: str = ""


@dataclass(frozen=True)
class LossFit:
    """A fitted loss curve.

    ``values`` are (b0, b1, b2), b0 in 1/(loss · step); ``residuals`` are predicted/measured - 1 at the points that were
    fitted (after replacing outliers and thinning long runs); ``covariance`` is of ``values``, None without
    degrees of freedom. Steps are counted from ``first_step``.
    """

    values: Array
    parameters: tuple[Parameter, ...]
    covariance: Array | None
    deviation: float | None
    degrees: int
    points: int
    replaced: int
    steps: tuple[float, float]
    first_step: float
    residuals: tuple[float, ...]
    notes: tuple[str, ...]
    level: float

    def loss(self, steps: Sequence[float] | Array) -> Array:
        return curve(self.values, np.asarray(steps, dtype=np.float64) - self.first_step)

    def steps_to(self, target: float) -> StepsToTarget:
        """Steps until the fitted curve reaches ``target``, with the interval from the parameters.

        Raises FitError for a target that is not positive.
        """
        if not (math.isfinite(target) and target > 0):
            raise FitError(f"{MODEL}: target loss must be positive, got {target:g}")
        steps = float(steps_at(self.values[None, :], target)[0]) + self.first_step
        low, high = self._interval_of_steps(target)
        if math.isinf(steps):
            why = f"the fitted curve flattens at {self.values[2]:.4g}, above the target of {target:g}"
            return StepsToTarget(None, low, None, why)
        return StepsToTarget(steps, low, high)

    def _interval_of_steps(self, target: float) -> tuple[float | None, float | None]:
        if self.covariance is None:
            return None, None
        return quantile_interval(steps_at(draws(self), target) + self.first_step, self.level)


def fit_loss(
    steps: Sequence[float],
    losses: Sequence[float],
    *,
    weighting: Weighting = "even",
    noise: Noise = "auto",
    replace_outliers: bool = True,
    window: int = WINDOW,
    most_points: int = MOST_POINTS,
    first_step: float = 0.0,
    level: float = 0.95,
) -> LossFit:
    """Fit Eq. 1 to (step or epoch, loss), in any order.

    ``weighting="late"`` is the authors' code: the second third weighs 4 times, the last 16 times (in sigma). A curve
    with a cut in the learning rate does not have this shape: fit its pieces (``first_step`` is where a piece begins).
    Raises FitError for fewer than three steps, a loss that is not a finite positive number, a step that is not finite.
    """
    k, loss = _points(steps, losses, first_step)
    replaced = 0
    if replace_outliers:
        loss, replaced = without_outliers(loss, window)
    k, loss, counts = thinned(k, loss, most_points)
    span, largest = float(k.max()) or 1.0, float(loss.max())
    scaled, weights = solve(k / span, loss / largest, np.sqrt(counts) * _late(len(k), weighting), noise)
    allowed = max(1, int(len(k) * _MOST_DROPPED)) if replace_outliers else 0
    for _ in range(_ROUNDS):
        near = near_curve(scaled, k / span, loss / largest, weights)
        dropped = int((~near).sum())
        if not 0 < dropped <= allowed or near.sum() < _FEWEST_KEPT:
            break
        replaced, allowed = replaced + dropped, allowed - dropped
        k, loss, counts = k[near], loss[near], counts[near]
        scaled, weights = solve(k / span, loss / largest, np.sqrt(counts) * _late(len(k), weighting), noise)
    values = scaled * np.array([1 / (largest * span), 1 / largest, largest])
    weights = weights / largest
    error = curve(values, k) - loss
    parameters, covariance, deviation, degrees = _uncertainty(values, k, error, weights, level)
    return LossFit(
        values=values,
        parameters=parameters,
        covariance=covariance,
        deviation=deviation,
        degrees=degrees,
        points=len(steps),
        replaced=replaced,
        steps=(float(k.min()) + first_step, float(k.max()) + first_step),
        first_step=first_step,
        residuals=tuple(float(e) for e in error / loss),
        notes=tuple(_notes(values, k, error, loss)),
        level=level,
    )


def draws(fit: LossFit, count: int = _DRAWS) -> Array:
    """Seeded draws of the parameters from their covariance, shape (count, 3), none negative."""
    if fit.covariance is None:
        return fit.values[None, :]
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(fit.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    # Student's t, not the normal: few points estimate their noise poorly.
    spread = rng.standard_normal((count, 3)) / np.sqrt(rng.chisquare(fit.degrees, count) / fit.degrees)[:, None]
    drawn: Array = np.maximum(fit.values + spread @ root.T, 0.0)
    return drawn


def quantile_interval(drawn: Array, level: float) -> tuple[float, float]:
    """The central interval of draws that may be infinite."""
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], method="nearest")
    return float(low), float(high)


def _points(steps: Sequence[float], losses: Sequence[float], first_step: float) -> tuple[Array, Array]:
    loss = positive_array(MODEL, "losses", losses)
    k = np.asarray(steps, dtype=np.float64) - first_step
    same_length(MODEL, {"steps": k, "losses": loss})
    if not np.isfinite(k).all() or (k < 0).any():
        raise FitError(f"{MODEL}: steps must be finite and not before first_step ({first_step:g})")
    require_points(MODEL, len(set(k.tolist())), 3, "different steps")
    order = np.argsort(k, kind="stable")
    return k[order], loss[order]


def _late(count: int, weighting: Weighting) -> Array:
    if weighting == "even":
        return np.ones(count)
    sigma: Array = 4.0 ** np.floor(np.arange(count) / math.ceil(count / 3))
    return sigma


def _uncertainty(
    values: Array, k: Array, error: Array, weights: Array, level: float
) -> tuple[tuple[Parameter, ...], Array | None, float | None, int]:
    jacobian = gradient(values, k) * weights[:, None]
    scale = np.sqrt((jacobian**2).sum(axis=0))
    _, singular, right = np.linalg.svd(jacobian / scale, full_matrices=False)
    rank = int((singular > SAME * singular[0]).sum())
    degrees = len(k) - rank
    if _flat(values, k):
        why = f"{NOT_IDENTIFIABLE}: the loss does not fall"
        return _without_intervals(values, {"b0": why, "b1": why}), None, None, degrees
    if rank < len(values):
        shared = np.abs(right[rank:]).max(axis=0) > 1e-3
        tied = [name for name, is_shared in zip(NAMES, shared, strict=True) if is_shared]
        return _without_intervals(values, {name: collinear_note(name, tied) for name in tied}), None, None, degrees
    if degrees <= 0:
        return _without_intervals(values, {}), None, None, 0
    variance = float(((error * weights) ** 2).sum()) / degrees
    covariance: Array = variance * ((right.T / singular**2) @ right) / np.outer(scale, scale)
    half = student_quantile(degrees, level) * np.sqrt(np.diag(covariance))
    parameters = tuple(
        Parameter(name, value, max(0.0, value - h), value + h, unit, _remark(value, h))
        for name, value, h, unit in zip(NAMES, _rounded_off(values), half.tolist(), UNITS, strict=True)
    )
    return parameters, covariance, math.sqrt(variance), degrees


def _without_intervals(values: Array, unknown: Mapping[str, str]) -> tuple[Parameter, ...]:
    """Parameters without intervals; ``unknown`` maps those without a value to the reason."""
    exact = "" if unknown else EXACT
    return tuple(
        Parameter(name, None if name in unknown else float(value), None, None, unit, unknown.get(name, exact))
        for name, value, unit in zip(NAMES, values, UNITS, strict=True)
    )


def _flat(values: Array, k: Array) -> bool:
    first, last = curve(values, k[[0, -1]])
    return bool(first - last < 1e-3 * first)


def _rounded_off(values: Array) -> list[float]:
    """Remove the margin that keeps a solver inside its bounds: a curve may start infinitely high, with b1 = 0."""
    b0, b1, b2 = values.tolist()
    return [b0, b1 if b1 > _SMALLEST * (1 + b0) else 0.0, b2]


def _remark(value: float, half: float) -> str:
    if value == 0:
        return "at its bound of 0"
    return NEAR_ZERO if value <= half else ""


def steps_at(values: Array, target: float) -> Array:
    """Steps to ``target`` for every row of (b0, b1, b2); infinite where it is never reached, 0 where it already is."""
    with np.errstate(all="ignore"):
        above = 1 / (target - values[:, 2])
        steps = (above - values[:, 1]) / values[:, 0]
    steps = np.where(above <= values[:, 1], 0.0, steps)
    return np.where((target <= values[:, 2]) | ~np.isfinite(steps), np.inf, steps)


def _notes(values: Array, k: Array, error: Array, loss: Array) -> list[str]:
    notes = []
    if _flat(values, k):
        notes.append("the loss does not fall")
    runs = _runs(error)
    size = float(np.sqrt((error**2).mean()) / loss.mean())
    if runs is not None and size > 0.005:
        notes.append(
            f"misfit: {runs[0]} runs of same-sign residuals, {runs[1]:.0f} expected; the curve does not have "
            "this shape (after a cut in the learning rate, fit the pieces separately)"
        )
    return notes


def _runs(error: Array) -> tuple[int, float] | None:
    """Runs of equal sign and their expected number, if far too few (A. Wald, J. Wolfowitz, 1940)."""
    above = error > 0
    count, high = len(error), int(above.sum())
    low = count - high
    if count < 20 or not high or not low:
        return None
    expected = 2 * high * low / count + 1
    variance = (expected - 1) * (expected - 2) / (count - 1)
    runs = 1 + int((above[1:] != above[:-1]).sum())
    return (runs, expected) if variance > 0 and (runs - expected) / math.sqrt(variance) < -5 else None
