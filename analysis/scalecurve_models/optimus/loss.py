"""The loss curve of Optimus (Peng et al., EuroSys 2018, Eq. 1): l(k) = 1/(b0 k + b1) + b2 with b0, b1, b2 >= 0."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.statistics.spread import student_quantile
from scalecurve_models.fitting.least_squares import (
    EXACT,
    LEVEL,
    NEAR_ZERO,
    NOT_IDENTIFIABLE,
    Array,
    FitError,
    Parameter,
    collinear_note,
    find_tied_columns,
    positive_array,
    require_points,
    same_length,
)
from scalecurve_models.optimus.curve import curve, gradient, is_near_curve, solve
from scalecurve_models.optimus.thinning import replace_outliers, thinned

NAMES = ("b0", "b1", "b2")
UNITS = ("1/step", "", "")
MODEL = "loss curve"
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
    degrees: int
    points: int
    replaced: int
    first_step: float
    residuals: tuple[float, ...]
    notes: tuple[str, ...]

    def loss(self, steps: Sequence[float] | Array) -> Array:
        return curve(self.values, np.asarray(steps, dtype=np.float64) - self.first_step)

    def steps_to(self, target: float) -> StepsToTarget:
        """Compute the steps until the fitted curve reaches ``target``, with the interval from the parameters.

        Raises FitError for a target that is not positive.
        """
        if not (math.isfinite(target) and target > 0):
            raise FitError(f"{MODEL}: target loss must be positive, got {target:g}")
        steps = float(steps_at(self.values[None, :], target)[0]) + self.first_step
        low = high = None
        if self.covariance is not None:
            drawn = steps_at(draws(self), target) + self.first_step
            low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest").tolist()
        if math.isinf(steps):
            why = f"the fitted curve flattens at {self.values[2]:.4g}, above the target of {target:g}"
            return StepsToTarget(None, low, None, why)
        return StepsToTarget(steps, low, high)


def fit_loss(steps: Sequence[float], losses: Sequence[float], *, first_step: float = 0.0) -> LossFit:
    """Fit Eq. 1 to (step or epoch, loss), in any order.

    A curve with a cut in the learning rate does not have this shape: fit its pieces (``first_step`` is where a piece
    begins).
    Raises FitError for fewer than three steps, a loss that is not a finite positive number, a step that is not finite.
    """
    k, loss = _points(steps, losses, first_step)
    loss, replaced = replace_outliers(loss)
    k, loss, counts = thinned(k, loss)
    span, largest = float(k.max()) or 1.0, float(loss.max())
    scaled, weights = solve(k / span, loss / largest, np.sqrt(counts))
    allowed = max(1, int(len(k) * _MOST_DROPPED))
    for _ in range(_ROUNDS):
        near = is_near_curve(scaled, k / span, loss / largest, weights)
        dropped = int((~near).sum())
        if not 0 < dropped <= allowed or near.sum() < _FEWEST_KEPT:
            break
        replaced, allowed = replaced + dropped, allowed - dropped
        k, loss, counts = k[near], loss[near], counts[near]
        scaled, weights = solve(k / span, loss / largest, np.sqrt(counts))
    values = scaled * np.array([1 / (largest * span), 1 / largest, largest])
    weights = weights / largest
    error = curve(values, k) - loss
    parameters, covariance, degrees = _uncertainty(values, k, error, weights)
    return LossFit(
        values=values,
        parameters=parameters,
        covariance=covariance,
        degrees=degrees,
        points=len(steps),
        replaced=replaced,
        first_step=first_step,
        residuals=tuple(float(e) for e in error / loss),
        notes=tuple(_notes(values, k, error, loss)),
    )


def fit_accuracy(steps: Sequence[float], accuracies: Sequence[float]) -> LossFit:
    """Fit the curve of 1 - accuracy, an assumption to be judged by its residuals; for ``steps_to(1 - target)``.

    Raises FitError for an accuracy outside [0, 1], or fewer than three steps.
    """
    for value in accuracies:
        if not 0 <= value <= 1:
            raise FitError(f"accuracy curve: accuracies must be in [0, 1], got {value:g}")
    return fit_loss(steps, [max(1 - value, _SMALLEST) for value in accuracies])


def steps_to_accuracy(fit: LossFit, target: float) -> StepsToTarget:
    """Compute steps to an accuracy from a curve of ``fit_accuracy``. Raises FitError for a target outside (0, 1)."""
    if not 0 < target < 1:
        raise FitError(f"accuracy curve: target accuracy must be between 0 and 1, got {target:g}")
    reach = fit.steps_to(1 - target)
    if reach.steps is None:
        best = 1 - float(fit.values[2])
        return StepsToTarget(
            None, reach.low, None, f"the fitted accuracy flattens at {best:.4g}, below the target of {target:g}"
        )
    return reach


def draws(fit: LossFit) -> Array:
    """Draw seeded parameters from their covariance, shape (draws, 3), none negative."""
    if fit.covariance is None:
        return fit.values[None, :]
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(fit.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    # Student's t, not the normal: few points estimate their noise poorly.
    spread = rng.standard_normal((_DRAWS, 3)) / np.sqrt(rng.chisquare(fit.degrees, _DRAWS) / fit.degrees)[:, None]
    drawn: Array = np.maximum(fit.values + spread @ root.T, 0.0)
    return drawn


def _points(steps: Sequence[float], losses: Sequence[float], first_step: float) -> tuple[Array, Array]:
    loss = positive_array(MODEL, "losses", losses)
    k = np.asarray(steps, dtype=np.float64) - first_step
    same_length(MODEL, {"steps": k, "losses": loss})
    if not np.isfinite(k).all() or (k < 0).any():
        raise FitError(f"{MODEL}: steps must be finite and not before first_step ({first_step:g})")
    require_points(MODEL, len(set(k.tolist())), 3, "different steps")
    order = np.argsort(k, kind="stable")
    return k[order], loss[order]


def _uncertainty(
    values: Array, k: Array, error: Array, weights: Array
) -> tuple[tuple[Parameter, ...], Array | None, int]:
    jacobian = gradient(values, k) * weights[:, None]
    rank, tied = find_tied_columns(jacobian, NAMES)
    degrees = len(k) - rank
    if _flat(values, k):
        why = f"{NOT_IDENTIFIABLE}: the loss does not fall"
        return _omit_intervals(values, {"b0": why, "b1": why}), None, degrees
    if rank < len(values):
        unknown = {name: collinear_note(name, others) for name, others in zip(NAMES, tied, strict=True) if others}
        return _omit_intervals(values, unknown), None, degrees
    if degrees <= 0:
        return _omit_intervals(values, {}), None, 0
    variance = float(((error * weights) ** 2).sum()) / degrees
    scale = np.sqrt((jacobian**2).sum(axis=0))
    inverse = np.linalg.pinv(jacobian / scale)
    covariance: Array = variance * (inverse @ inverse.T) / np.outer(scale, scale)
    half = student_quantile(degrees, LEVEL) * np.sqrt(np.diag(covariance))
    parameters = tuple(
        Parameter(name, value, max(0.0, value - h), value + h, unit, _remark(value, h))
        for name, value, h, unit in zip(NAMES, _remove_margin(values), half.tolist(), UNITS, strict=True)
    )
    return parameters, covariance, degrees


def _omit_intervals(values: Array, unknown: Mapping[str, str]) -> tuple[Parameter, ...]:
    """Parameters without intervals; ``unknown`` maps those without a value to the reason."""
    exact = "" if unknown else EXACT
    return tuple(
        Parameter(name, None if name in unknown else float(value), None, None, unit, unknown.get(name, exact))
        for name, value, unit in zip(NAMES, values, UNITS, strict=True)
    )


def _flat(values: Array, k: Array) -> bool:
    first, last = curve(values, k[[0, -1]])
    return bool(first - last < 1e-3 * first)


def _remove_margin(values: Array) -> list[float]:
    """Remove the margin that keeps a solver inside its bounds: a curve may start infinitely high, with b1 = 0."""
    b0, b1, b2 = values.tolist()
    return [b0, b1 if b1 > _SMALLEST * (1 + b0) else 0.0, b2]


def _remark(value: float, half: float) -> str:
    if value == 0:
        return "at its bound of 0"
    return NEAR_ZERO if value <= half else ""


def steps_at(values: Array, target: float) -> Array:
    """Return steps to ``target`` for every row of (b0, b1, b2).

    They are infinite where the target is never reached, 0 where it already is.
    """
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


FRACTIONS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Refit:
    """The fit after ``seen`` points: the curve, and its mean error on the points still to come."""

    seen: int
    share: float
    fit: LossFit | None
    failure: str
    ahead_error: float | None
    last_error: float | None


def refits(
    steps: Sequence[float], losses: Sequence[float], fractions: Sequence[float] = FRACTIONS
) -> tuple[Refit, ...]:
    """Fit the first 10 %, 20 %, … of the points and compare each curve with the rest.

    ``ahead_error`` is mean |predicted/measured - 1| over the later points, ``last_error`` that of the last tenth of
    the full run (its median loss, since single steps scatter). Raises FitError for columns of different length,
    or fractions outside (0, 1].
    """
    if len(steps) != len(losses):
        raise FitError(f"{MODEL}: expected as many steps as losses, got {len(steps)} and {len(losses)}")
    if any(not 0 < share <= 1 for share in fractions):
        raise FitError(
            f"{MODEL}: shares of a run must be in (0, 1], got {', '.join(f'{share:g}' for share in fractions)}"
        )
    order = np.argsort(np.asarray(steps, dtype=np.float64), kind="stable")
    k, loss = np.asarray(steps, dtype=np.float64)[order], np.asarray(losses, dtype=np.float64)[order]
    tail = slice(int(len(k) * 0.9), None)
    out = []
    for share in fractions:
        seen = max(1, round(len(k) * share))
        try:
            fit = fit_loss(k[:seen].tolist(), loss[:seen].tolist())
        except FitError as error:
            out.append(Refit(seen, share, None, str(error), None, None))
            continue
        errors = fit.loss(k) / loss - 1
        ahead = float(np.abs(errors[seen:]).mean()) if seen < len(k) else None
        last = float(np.median(fit.loss(k[tail])) / np.median(loss[tail]) - 1)
        out.append(Refit(seen, share, fit, "", ahead, last))
    return tuple(out)
