"""The speed model of Optimus (Peng et al., EuroSys 2018): steps/s with w workers, p parameter servers, M global batch.

    async (Eq. 3)   f = w / (θ0 + θ1 w/p + θ2 w + θ3 p)
    sync  (Eq. 4)   f = 1 / (θ0 M/w + θ1 + θ2 w/p + θ3 w + θ4 p)

Eq. 4 follows the authors' code. Inverted, both are linear in θ: w/f or 1/f. Rows are divided by that, so that residuals
are relative errors of f, and solved by non-negative least squares. ``workers`` is Eq. 4 without parameter servers, or
with a constant number of them: the terms in p merge with those that vary the same way.

    workers         f = 1 / (θ0 M/w + θ1 + θ3 w)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalecurve_models.fitting.least_squares import (
    Array,
    FitError,
    LinearFit,
    Parameter,
    Prediction,
    leave_out,
    nonnegative,
    positive_array,
    require_points,
    same_length,
)

Kind = Literal["sync", "async", "workers"]


@dataclass(frozen=True)
class Equation:
    """A speed model: the columns of time = columns · θ, where f = share(w)/time; ``number`` is the paper's."""

    name: Kind
    number: str
    equation: str
    symbols: tuple[str, ...]
    columns: Callable[[Array, Array, Array], Array]
    by_worker: bool

    @property
    def title(self) -> str:
        return f"speed model ({self.name})"

    def row(self, workers: float, servers: float, batch: float | None) -> Array:
        if batch is None and not self.by_worker:
            raise FitError(f"{self.title}: needs the global batch M")
        inputs = [workers, servers, 1.0 if batch is None else batch]
        w, p, m = (positive_array(self.title, "workers, servers and batch", [value]) for value in inputs)
        row: Array = self.columns(p, w, m)[0]
        return row


EQUATIONS: dict[str, Equation] = {
    equation.name: equation
    for equation in (
        Equation(
            name="sync",
            number="Eq. 4",
            equation="f = 1/(θ0 M/w + θ1 + θ2 w/p + θ3 w + θ4 p)",
            symbols=("theta0", "theta1", "theta2", "theta3", "theta4"),
            columns=lambda p, w, m: np.stack([m / w, np.ones_like(w), w / p, w, p], axis=1),
            by_worker=False,
        ),
        Equation(
            name="async",
            number="Eq. 3",
            equation="f = w/(θ0 + θ1 w/p + θ2 w + θ3 p)",
            symbols=("theta0", "theta1", "theta2", "theta3"),
            columns=lambda p, w, m: np.stack([np.ones_like(w), w / p, w, p], axis=1),
            by_worker=True,
        ),
        Equation(
            name="workers",
            number="Eq. 4 without servers",
            equation="f = 1/(θ0 M/w + θ1 + θ3 w)",
            symbols=("theta0", "theta1", "theta3"),
            columns=lambda p, w, m: np.stack([m / w, np.ones_like(w), w], axis=1),
            by_worker=False,
        ),
    )
}


def speed(
    kind: Kind, theta: Sequence[float], workers: float, *, servers: float = 1, batch: float | None = None
) -> float:
    """Steps/s for known coefficients (``batch`` is M, not needed for async).

    Raises FitError for another number of coefficients, no batch where one is needed, or numbers that are not positive.
    """
    equation = _equation(kind)
    if len(theta) != len(equation.symbols):
        raise FitError(f"{equation.title}: needs {len(equation.symbols)} coefficients, got {len(theta)}")
    time = float(equation.row(workers, servers, batch) @ np.asarray(theta, dtype=np.float64))
    if not time > 0:
        raise FitError(f"{equation.title}: these coefficients give a step time of 0")
    return (workers if equation.by_worker else 1.0) / time


@dataclass(frozen=True)
class SpeedFit:
    """A fitted speed model; ``residuals`` and ``held_out`` are predicted/measured - 1 by point.

    ``held_out`` has each point predicted without all points of its (p, w, M); None where too few stay.
    """

    equation: Equation
    values: Array
    parameters: tuple[Parameter, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]
    notes: tuple[str, ...]
    _linear: LinearFit

    def predict(self, workers: float, *, servers: float = 1, batch: float | None = None) -> Prediction:
        """Steps/s with the interval for another run; none without degrees of freedom.

        Raises FitError for no batch where one is needed, or numbers that are not positive.
        """
        speed(self.equation.name, self.values.tolist(), workers, servers=servers, batch=batch)  # refuses bad input
        time = self._linear.predict(self.equation.row(workers, servers, batch))
        return time.inverse(workers if self.equation.by_worker else 1.0)


def fit_speed(
    kind: Kind,
    workers: Sequence[float],
    steps_per_s: Sequence[float],
    *,
    servers: Sequence[float] | None = None,
    batch: Sequence[float] | float | None = None,
) -> SpeedFit:
    """Fit Eq. 3 or 4 to measured speeds; every row one run.

    Raises FitError for fewer different runs than coefficients, no servers or no batch where the equation has them, or a
    number that is not positive, with its place.
    """
    equation = _equation(kind)
    name = equation.title
    w = positive_array(name, "worker counts", workers)
    f = positive_array(name, "speeds", steps_per_s)
    if servers is None and kind != "workers":
        raise FitError(f"{name}: needs the number of parameter servers for every run")
    p = np.ones_like(w) if servers is None else positive_array(name, "server counts", servers)
    if batch is None and kind != "async":
        raise FitError(f"{name}: needs the global batch M")
    batches = np.full_like(w, 1.0) if batch is None else np.asarray(batch, dtype=np.float64)
    m = positive_array(name, "batches", np.broadcast_to(batches, w.shape) if batches.ndim == 0 else batches)
    same_length(name, {"worker counts": w, "speeds": f, "server counts": p, "batches": m})
    runs = np.stack([p, w, m], axis=1)
    distinct, run_of = np.unique(runs, axis=0, return_inverse=True)
    require_points(name, len(distinct), len(equation.symbols), "different runs")
    rows = equation.columns(p, w, m) * (f / (w if equation.by_worker else 1.0))[:, None]
    linear = nonnegative(rows, np.ones(len(f)), equation.symbols)
    per_sample = "s" if equation.by_worker else "s/sample"
    units = [per_sample if symbol == "theta0" else "s" for symbol in equation.symbols]
    return SpeedFit(
        equation=equation,
        values=linear.values,
        parameters=linear.parameters(units),
        residuals=tuple(float(e) for e in 1 / (rows @ linear.values) - 1),
        held_out=tuple(
            None if error is None or error <= -1 else 1 / (1 + error) - 1
            for error in leave_out(rows, run_of.ravel(), len(equation.symbols))
        ),
        notes=tuple(_notes(equation, linear, len(distinct))),
        _linear=linear,
    )


def _notes(equation: Equation, linear: LinearFit, runs: int) -> list[str]:
    notes = []
    if any(linear.collinear):
        names = [name for name, others in zip(equation.symbols, linear.collinear, strict=True) if others]
        notes.append(
            f"{', '.join(names)}: not identifiable, these runs vary their terms only together; predictions for runs "
            "that vary them separately are meaningless"
        )
    if runs == len(equation.symbols):
        notes.append("as many coefficients as runs: fits exactly, no error estimate")
    return notes


def _equation(kind: str) -> Equation:
    if kind not in EQUATIONS:
        raise FitError(f"speed model: kind {kind!r}: expected one of {', '.join(EQUATIONS)}")
    return EQUATIONS[kind]
