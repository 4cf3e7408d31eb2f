"""Non-negative least squares with intervals, collinear columns named, and errors in one line.

Every model that is linear in its parameters comes here with rows already divided by the measured value, so that
residuals are relative errors. Parameters are times and shares: none may be negative (NNLS, C. L. Lawson and
R. J. Hanson, Solving Least Squares Problems, 1974, ch. 23).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalecurve.statistics.spread import student_quantile

Array = NDArray[np.float64]

# Below this fraction of the largest singular value two columns are equal up to rounding.
SAME = 1e-9
NOT_IDENTIFIABLE = "not identifiable"
EXACT = "as many points as parameters, so no error estimate"
NEAR_ZERO = "not distinguishable from 0"
LEVEL = 0.95  # of every interval, as headings state
SMALLEST, LARGEST = 1e-100, 1e100  # measured values beyond are nonsense, and their squares overflow
NOTHING = float(np.log(1000))  # an interval from a thousandth to a thousand times a value is worthless


class FitError(ValueError):
    """Data that a model cannot be fitted to; the message is one line."""


@dataclass(frozen=True)
class Parameter:
    """A fitted number with its interval; ``value`` is None where it is not identifiable, and ``note`` says why.

    ``low`` and ``high`` are None where there are no more points than parameters.
    """

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    note: str = ""

    def scaled(self, factor: float, unit: str) -> Parameter:
        value, low, high = (None if v is None else v * factor for v in (self.value, self.low, self.high))
        return Parameter(self.name, value, low, high, unit, self.note)


@dataclass(frozen=True)
class Prediction:
    """A predicted value with the interval for a new measurement; None without one."""

    value: float
    low: float | None = None
    high: float | None = None

    def inverse(self, numerator: float) -> Prediction:
        """Divide ``numerator`` by the value and its interval, such as for a rate from a time."""
        value = numerator / self.value
        if self.low is None or self.high is None:
            return Prediction(value)
        return Prediction(value, numerator / self.high, numerator / self.low if self.low > 0 else np.inf)

    @property
    def bounded(self) -> bool:
        return self.low is not None and self.high is not None and self.low > 0 and self.high < np.inf


def log_interval(value: float, half: float) -> Prediction:
    """Return a positive prediction whose log has half-width ``half``; from 0 to infinity where that is worthless."""
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

    def predict(self, row: Array) -> Prediction:
        """Predict ``row @ values`` with the interval for another measurement; the residuals are its relative error."""
        value = float(row @ self.values)
        variance = self.variance
        if self.covariance is None or variance is None or value == 0:
            return Prediction(value)
        spread = variance + float(row @ self.covariance @ row) / value**2
        return log_interval(value, student_quantile(self.degrees, LEVEL) * float(np.sqrt(spread)))

    def parameters(self, units: Sequence[str], extra: Array | None = None) -> tuple[Parameter, ...]:
        covariance = self.covariance if self.covariance is None or extra is None else self.covariance + extra
        return tuple(self._parameter(index, unit, covariance) for index, unit in enumerate(units))

    def _parameter(self, index: int, unit: str, covariance: Array | None) -> Parameter:
        name, value = self.names[index], float(self.values[index])
        if self.collinear[index]:
            return Parameter(name, unit=unit, note=collinear_note(name, self.collinear[index]))
        if covariance is None:
            return Parameter(name, value, unit=unit, note=EXACT)
        half = student_quantile(self.degrees, LEVEL) * float(np.sqrt(max(covariance[index, index], 0.0)))
        low = max(0.0, value - half)
        high = max(0.0, float(self.free[index]) + half) if value == 0 else value + half
        if value == 0:
            note = "at its bound of 0" if high > 0 else "at its bound of 0; these points pull it below"
            return Parameter(name, 0.0, 0.0, high, unit, note)
        return Parameter(name, value, low, high, unit, NEAR_ZERO if low == 0 else "")


def collinear_note(name: str, tied: Sequence[str]) -> str:
    """Explain why a parameter has no value."""
    others = [other for other in tied if other != name]
    if not others:
        return f"{NOT_IDENTIFIABLE}: no point depends on it"
    return f"{NOT_IDENTIFIABLE}: in these points it varies only together with {', '.join(others)}"


def nonnegative(design: Array, target: Array, names: Sequence[str]) -> LinearFit:
    """Solve least squares with no parameter below 0; shapes (points, parameters) and (points,).

    Covariances are those of the unbounded problem, which bounds can only narrow. With collinear columns the fitted
    values are one of many solutions: fit to predict similar points, meaningless by themselves.
    """
    count, width = design.shape
    values = nonnegative_values(design, target)
    residuals = design @ values - target
    if not width:
        return LinearFit((), values, values, np.zeros((0, 0)) if count else None, count, residuals, ())
    scale = _lengths(design)
    rank, tied = find_tied_columns(design, names)
    degrees = count - rank
    pseudo = np.linalg.pinv(design / scale, rcond=SAME)
    free = (pseudo @ target) / scale
    covariance = None
    if degrees > 0:
        variance = float(residuals @ residuals) / degrees
        covariance = variance * (pseudo @ pseudo.T) / np.outer(scale, scale)
    return LinearFit(tuple(names), values, free, covariance, degrees, residuals, tied)


def nonnegative_values(design: Array, target: Array) -> Array:
    """Solve for the parameters alone, without intervals."""
    from scipy.optimize import nnls

    if not design.shape[1]:
        return np.zeros(0)
    scale = _lengths(design)
    values: Array = nnls(design / scale, target)[0] / scale
    return values


def leave_out(design: Array, groups: np.ndarray, distinct: int) -> tuple[float | None, ...]:
    """Return predicted/measured - 1 of every row of ``design @ x = 1`` by a fit without the rows of its group.

    None where fewer than ``distinct`` other groups are left.
    """
    errors: list[float | None] = [None] * len(design)
    labels = np.unique(groups)
    if len(labels) > distinct:
        for label in labels:
            here = groups == label
            values = nonnegative_values(design[~here], np.ones(int((~here).sum())))
            for index in np.flatnonzero(here):
                errors[index] = float(design[index] @ values - 1)
    return tuple(errors)


def _lengths(design: Array) -> Array:
    lengths = np.sqrt((design**2).sum(axis=0))
    return np.where(lengths > 0, lengths, 1.0)


def find_tied_columns(
    design: Array, names: Sequence[str], flat: float = SAME
) -> tuple[int, tuple[tuple[str, ...], ...]]:
    """Find the rank, and for each column those that it cannot be separated from (only itself where nothing varies it).

    Directions below ``flat`` of the steepest one count as not seen.
    """
    count, width = design.shape
    # Rows of zeros change nothing and make room for the directions that no point sees.
    padded = np.concatenate([design / _lengths(design), np.zeros((max(0, width - count), width))])
    _, singular, right = np.linalg.svd(padded, full_matrices=False)
    rank = int((singular > flat * singular[0]).sum()) if singular[0] > 0 else 0
    # The projector on the null space does not depend on the basis.
    shared = np.abs(right[rank:].T @ right[rank:]) > 1e-6
    return rank, tuple(
        tuple(name for name, shares in zip(names, row, strict=True) if shares) if row[index] else ()
        for index, row in enumerate(shared)
    )


@dataclass(frozen=True)
class SumFit:
    """A measured quantity as a sum of terms; ``residuals`` and ``held_out`` are predicted/measured - 1 by point.

    ``held_out`` has each point predicted without its group; None where too few groups are left.
    """

    parameters: tuple[Parameter, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]


def fit_sum(terms: Sequence[Array], measured: Array, groups: Array, **units: str) -> SumFit:
    """Fit the shares of ``terms`` in ``measured``; ``units`` maps each term's parameter to its unit."""
    rows = np.stack(terms, axis=1) / measured[:, None]
    linear = nonnegative(rows, np.ones(len(measured)), tuple(units))
    residuals = tuple(float(error) for error in rows @ linear.values - 1)
    return SumFit(linear.parameters(tuple(units.values())), residuals, leave_out(rows, groups, len(terms)))


def positive_array(model: str, quantity: str, values: ArrayLike) -> Array:
    """Convert the values to an array.

    Raises:
        FitError: naming the first value that is not positive, or whose square or reciprocal could overflow.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FitError(f"{model}: {quantity} must be finite positive numbers: {error}") from error
    if array.ndim != 1:
        raise FitError(f"{model}: {quantity} must be a flat list of numbers, got {array.ndim} dimensions")
    for valid, allowed in (
        (np.isfinite(array) & (array > 0), "finite positive numbers"),
        ((array >= SMALLEST) & (array <= LARGEST), f"between {SMALLEST:g} and {LARGEST:g}"),
    ):
        if not valid.all():
            first = int(np.argmin(valid))
            raise FitError(f"{model}: {quantity} must be {allowed}, got {array[first]:g} as number {first + 1}")
    return array


def same_length(model: str, columns: dict[str, Array]) -> int:
    """Return the common length of the columns. Raises FitError when they differ."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise FitError(f"{model}: columns must have the same length, got {counts}")
    return next(iter(lengths.values()))


def require_points(model: str, count: int, needed: int, noun: str = "points") -> None:
    """Raise FitError when there are fewer points than parameters."""
    if count < needed:
        raise FitError(f"{model}: {needed} parameters need at least {needed} {noun}, got {count}")


def mean_absolute(errors: Sequence[float | None]) -> float | None:
    """Compute the mean absolute value of the errors that are not None."""
    sizes = [abs(error) for error in errors if error is not None]
    return sum(sizes) / len(sizes) if sizes else None


def largest_absolute(errors: Sequence[float | None]) -> float | None:
    """Find the largest absolute value of the errors that are not None."""
    return max((abs(error) for error in errors if error is not None), default=None)
