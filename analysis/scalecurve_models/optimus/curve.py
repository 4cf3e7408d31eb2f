"""Solving for the curve of Optimus' Eq. 1: l(k) = 1/(b0 k + b1) + b2.

The paper fixes b2, inverts the curve, 1/(l - b2) = b0 k + b1, and solves by non-negative least squares. This distorts
the noise: near the floor l - b2 is small and of either sign, so that b2 can only be searched below the smallest loss,
itself a product of noise. Here the ratio b0/b1 is scanned instead: for a fixed ratio l = a/(1 + k b0/b1) + b2 is
linear in a = 1/b1 and b2, and non-negative least squares applies to the loss itself. The best candidates are refined
in all three parameters. Whether the noise is constant or proportional to the loss is decided by the likelihood of the
residuals; it weights the points and sets the intervals.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scalecurve_models.fitting.least_squares import Array

_SCAN = 96
_RATIOS = (1e-4, 1e9)
_FLAT = 1e-6
_FAR_OFF = 6.0
_ROUNDING = 1e-6
_NO_FLOOR = 1e-3
_LEAST = np.array([0.0, 1e-12, 0.0])
_LEAST_START = np.array([1e-9, 1e-6, 0.0])


def curve(values: Array, steps: Array) -> Array:
    """l(k) = 1/(b0 k + b1) + b2."""
    result: Array = 1 / (values[0] * steps + values[1]) + values[2]
    return result


def gradient(values: Array, k: Array) -> Array:
    """d l / d (b0, b1, b2), shape (steps, 3)."""
    squared = 1 / (values[0] * k + values[1]) ** 2
    return np.stack([-k * squared, -squared, np.ones_like(k)], axis=1)


def solve(k: Array, loss: Array, weights: Array) -> tuple[Array, Array]:
    """(b0, b1, b2) for steps up to 1 and losses up to 1, and the weights that fit the noise."""
    starts = _scan_ratios(k, loss, weights)
    constant = relative = _best(k, loss, weights, starts)
    for _ in range(2):
        # Proportional to the fitted loss, not to the measured one: noise must not weight itself.
        fitted = curve(relative, k)
        relative = _best(k, loss, weights / fitted, [starts[0], constant])
    solutions = ((constant, weights), (relative, weights / curve(relative, k)))
    return min(solutions, key=lambda solution: _unlikely(k, loss, *solution))


def is_near_curve(values: Array, k: Array, loss: Array, weights: Array) -> NDArray[np.bool_]:
    """Points within a few robust deviations of the curve through the others.

    The ends of a run have neighbors on one side only, so an outlier there passes the first check, and an early one
    pulls the curve towards itself: residuals are those of the curve without the point (R. D. Cook, S. Weisberg,
    Residuals and Influence in Regression, 1982). The worst go first, since they may make others look bad.
    """
    design = gradient(values, k) * weights[:, None]
    basis, _ = np.linalg.qr(design / np.maximum(np.sqrt((design**2).sum(axis=0)), 1e-300))
    leverage = np.minimum((basis**2).sum(axis=1), 1 - 1e-3)
    errors = (curve(values, k) - loss) * weights
    limit = max(_FAR_OFF * 1.4826 * float(np.median(np.abs(errors))), _ROUNDING)
    off = np.abs(errors) / (1 - leverage)
    near: NDArray[np.bool_] = off <= max(limit, float(off.max()) / 2)
    return near


def _unlikely(k: Array, loss: Array, values: Array, weights: Array) -> float:
    """Negative log-likelihood of normal residuals with deviations proportional to 1/weights."""
    squares = float((((curve(values, k) - loss) * weights) ** 2).mean())
    return 0.5 * len(k) * math.log(squares + 1e-30) - float(np.log(weights).sum())


def _best(k: Array, loss: Array, weights: Array, starts: Sequence[Array]) -> Array:
    polished = [_polish(k, loss, weights, start) for start in starts]
    best = min(polished, key=lambda values: _squares(k, loss, weights, values))
    if best[2] > _NO_FLOOR * loss.min():
        return best
    # A solver that stays inside its bounds only creeps towards a floor of 0: try 0 directly.
    bare = _polish(k, loss, weights, best, floor=False)
    no_worse = _squares(k, loss, weights, bare) <= _squares(k, loss, weights, best) * (1 + 1e-9) + _ROUNDING**2
    return bare if no_worse else best


def _squares(k: Array, loss: Array, weights: Array, values: Array) -> float:
    return float((((curve(values, k) - loss) * weights) ** 2).sum())


def _scan_ratios(k: Array, loss: Array, weights: Array) -> list[Array]:
    ratios = np.geomspace(*_RATIOS, _SCAN)
    coarse = _fit_at_ratios(k, loss, weights, ratios)
    best, width = coarse[0], (_RATIOS[1] / _RATIOS[0]) ** (1 / (_SCAN - 1))
    fine = best[0] / best[1] * np.geomspace(1 / width, width, _SCAN)
    return [_fit_at_ratios(k, loss, weights, fine)[0], best]


def _fit_at_ratios(k: Array, loss: Array, weights: Array, ratios: Array) -> list[Array]:
    """(b0, b1, b2) for every ratio b0/b1, the best first: non-negative least squares of l = a/(1 + k b0/b1) + b2."""
    shape = weights / (1 + ratios[:, None] * k)
    target = loss * weights
    ss, s1, one = (shape**2).sum(1), (shape * weights).sum(1), float((weights**2).sum())
    st, t = (shape * target).sum(1), float((weights * target).sum())
    determinant = ss * one - s1 * s1
    with np.errstate(all="ignore"):
        height, floor = (st * one - t * s1) / determinant, (t * ss - st * s1) / determinant
    flat = ~(determinant > 1e-14 * ss * one) | (height <= 0)
    bare = ~flat & (floor < 0)
    height = np.where(flat, loss.max() * _FLAT, np.where(bare, st / ss, height))
    floor = np.where(flat, t / one, np.where(bare, 0.0, floor))
    error = ((height[:, None] * shape + floor[:, None] * weights - target) ** 2).sum(1)
    order = np.argsort(error, kind="stable")
    return [np.array([ratios[i] / height[i], 1 / height[i], floor[i]]) for i in order]


def _polish(k: Array, loss: Array, weights: Array, start: Array, floor: bool = True) -> Array:
    """The least squares nearest to ``start``; with b2 = 0 unless ``floor``."""
    from scipy.optimize import least_squares

    free = 3 if floor else 2

    def pad(values: Array) -> Array:
        return values if floor else np.append(values, 0.0)

    solution = least_squares(
        lambda values: (curve(pad(values), k) - loss) * weights,
        np.maximum(start, _LEAST_START)[:free],
        jac=lambda values: (gradient(pad(values), k) * weights[:, None])[:, :free],
        bounds=(_LEAST[:free], np.inf),
        x_scale="jac",
        ftol=1e-15,
        xtol=1e-15,
        gtol=1e-15,
        max_nfev=100,
    )
    return pad(solution.x)
