"""Least squares that says what it does not know: intervals, what cannot be told apart, failures in one line.

All models of this room that are linear in their parameters come here with rows already divided by what was measured,
so that residuals are relative errors. Parameters are times and shares: none may be negative (NNLS, C. L. Lawson and
R. J. Hanson, Solving Least Squares Problems, 1974, ch. 23).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalecurve.statistics.intervals import student_quantile

Array = NDArray[np.float64]

# Below this share of the largest singular value two columns are the same but for rounding.
SAME = 1e-9
NOT_IDENTIFIABLE = "not identifiable"
NOTHING = float(np.log(1000))
"""An interval of a thousandth to a thousand times a value says nothing of it."""


class FitError(ValueError):
    """Data that a model cannot be fitted to, said in one line."""


@dataclass(frozen=True)
class Parameter:
    """A fitted number with its interval; ``value`` is None where the points cannot tell it, and ``note`` says why.

    ``low`` and ``high`` are None where there are no more points than parameters.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    unit: str = ""
    note: str = ""

    @property
    def identifiable(self) -> bool:
        return self.value is not None

    def scaled(self, factor: float, unit: str) -> Parameter:
        value, low, high = (None if v is None else v * factor for v in (self.value, self.low, self.high))
        return Parameter(self.name, value, low, high, unit, self.note)


@dataclass(frozen=True)
class Prediction:
    """A predicted value with the interval that a new measurement should fall into; None without one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether the interval says anything; False also where there is none."""
        return self.low is not None and self.high is not None and self.low > 0 and self.high < np.inf


def log_interval(value: float, half: float) -> Prediction:
    """A positive prediction whose log is known to ``half``; from 0 to infinity where that is worth nothing."""
    if not half <= NOTHING:
        return Prediction(value, 0.0, np.inf)
    return Prediction(value, value * float(np.exp(-half)), value * float(np.exp(half)))


@dataclass(frozen=True)
class LinearFit:
    """Parameters x >= 0 of ``design @ x = target``.

    ``covariance`` is None without degrees of freedom. ``collinear`` names, for every column, the columns that it cannot
    be separated from (only itself where nothing varies it); empty where it is identified.
    """

    names: tuple[str, ...]
    values: Array
    free: Array
    covariance: Array | None
    degrees: int
    residuals: Array
    collinear: tuple[tuple[str, ...], ...]

    @property
    def variance(self) -> float | None:
        return float(self.residuals @ self.residuals) / self.degrees if self.degrees > 0 else None

    def parameters(self, units: Sequence[str], level: float, extra: Array | None = None) -> tuple[Parameter, ...]:
        covariance = self.covariance
        if covariance is not None and extra is not None:
            covariance = covariance + extra
        return tuple(self._parameter(index, unit, level, covariance) for index, unit in enumerate(units))

    def _parameter(self, index: int, unit: str, level: float, covariance: Array | None) -> Parameter:
        name, value = self.names[index], float(self.values[index])
        if self.collinear[index]:
            return Parameter(name, None, None, None, unit, collinear_note(name, self.collinear[index]))
        if covariance is None:
            return Parameter(name, value, None, None, unit, "as many points as parameters: no error can be told")
        half = student_quantile(self.degrees, level) * float(np.sqrt(max(covariance[index, index], 0.0)))
        low = max(0.0, value - half)
        high = max(0.0, float(self.free[index]) + half) if value == 0 else value + half
        if value == 0:
            note = "at its bound of 0" if high > 0 else "at its bound of 0, and these points pull below it"
            return Parameter(name, 0.0, 0.0, high, unit, note)
        return Parameter(name, value, low, high, unit, "cannot be told from 0" if low == 0 else "")


def collinear_note(name: str, tied: Sequence[str]) -> str:
    """Why a parameter has no value."""
    others = [other for other in tied if other != name]
    if not others:
        return f"{NOT_IDENTIFIABLE}: no point depends on it"
    return f"{NOT_IDENTIFIABLE}: these points vary it only together with {', '.join(others)}"


def nonnegative(design: Array, target: Array, names: Sequence[str]) -> LinearFit:
    """Least squares with no parameter below 0; shapes (points, parameters) and (points,).

    Covariances are those of the unbounded problem, which bounds can only narrow. Where columns depend on each other
    the fitted values are one of many solutions: good for predicting alike points, useless by themselves.
    """
    count, width = design.shape
    values = nonnegative_values(design, target)
    residuals = design @ values - target
    if not width:
        return LinearFit((), values, values, np.zeros((0, 0)) if count else None, count, residuals, ())
    scale = _lengths(design)
    scaled = design / scale
    # Rows of zeros change nothing, and make room for the directions that no point sees.
    padded = np.concatenate([scaled, np.zeros((max(0, width - count), width))])
    _, singular, right = np.linalg.svd(padded, full_matrices=False)
    rank = int((singular > SAME * singular[0]).sum()) if singular.size and singular[0] > 0 else 0
    degrees = count - rank
    pseudo = np.linalg.pinv(scaled, rcond=SAME)
    free = (pseudo @ target) / scale
    covariance = None
    if degrees > 0:
        variance = float(residuals @ residuals) / degrees
        covariance = variance * (pseudo @ pseudo.T) / np.outer(scale, scale)
    return LinearFit(tuple(names), values, free, covariance, degrees, residuals, _tied(right[rank:], names))


def nonnegative_values(design: Array, target: Array) -> Array:
    """The parameters alone, where no interval is wanted."""
    from scipy.optimize import nnls

    if not design.shape[1]:
        return np.zeros(0)
    scale = _lengths(design)
    values: Array = nnls(design / scale, target)[0] / scale
    return values


def _lengths(design: Array) -> Array:
    lengths = np.sqrt((design**2).sum(axis=0))
    return np.where(lengths > 0, lengths, 1.0)


def _tied(null: Array, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """For each column the columns that share a direction no point sees."""
    # The projector on the null space does not depend on the basis that was found for it.
    shared = np.abs(null.T @ null) > 1e-6
    return tuple(
        tuple(name for name, with_it in zip(names, row, strict=True) if with_it) if row[index] else ()
        for index, row in enumerate(shared)
    )


def positive_array(model: str, quantity: str, values: ArrayLike) -> Array:
    """The values as an array.

    Raises:
        FitError: naming the first value that is not a finite positive number.
    """
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FitError(f"{model}: {quantity} must be finite positive numbers: {error}") from error
    if found.ndim != 1:
        raise FitError(f"{model}: {quantity} must be a plain list of numbers, given {found.ndim} dimensions")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
    if wrong.size:
        first = int(wrong[0])
        raise FitError(
            f"{model}: {quantity} must be finite positive numbers, given {found[first]:g} as number {first + 1}"
        )
    return found


def same_length(model: str, columns: dict[str, Array]) -> int:
    """How many points there are.

    Raises:
        FitError: when columns differ in length.
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise FitError(f"{model}: as many values of each are needed, given {said}")
    return next(iter(lengths.values()))


def require_points(model: str, count: int, needed: int, noun: str = "points") -> None:
    """Refuse fewer points than parameters.

    Raises:
        FitError: with both numbers.
    """
    if count < needed:
        raise FitError(f"{model}: {needed} parameters need at least {needed} {noun}, given {count}")


def mean_absolute(errors: Sequence[float | None]) -> float | None:
    """The mean size of the errors that are there."""
    known = [abs(error) for error in errors if error is not None]
    return sum(known) / len(known) if known else None


def largest_absolute(errors: Sequence[float | None]) -> float | None:
    """The size of the largest of the errors that are there."""
    return max((abs(error) for error in errors if error is not None), default=None)
