"""Coefficients of loss curves over depth, parameters and device, and how much of that is noise.

With three coefficients per run, few runs and a seed per run, a regression always finds something. So each coefficient
is cross-validated over depths and compared with the mean of the others, which ignores depth; and the effect of the
device, which a loss per step cannot depend on, shows what chance alone produces.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalecurve.statistics.intervals import student_quantile
from scalecurve_models.fitting.least_squares import EXACT, NEAR_ZERO, NOT_IDENTIFIABLE, Array, FitError, Parameter
from scalecurve_models.optimus.curve import curve
from scalecurve_models.optimus.loss import NAMES, LossFit

MODEL = "coefficients over depth"
Axis = Literal["depth", "parameters"]


AT_BOUND = 1e-9
"""A coefficient up to this size is 0 up to the solver's last step."""
NOTHING = "no information: at its bound of 0 in every run"


@dataclass(frozen=True)
class LossRun:
    """One run's curve with its regressors; ``family`` separates nets whose depths are not comparable."""

    label: str
    fit: LossFit
    steps: Array
    losses: Array
    depth: int | None = None
    parameters: int | None = None
    device: str = ""
    family: str = ""


@dataclass(frozen=True)
class CoefficientFit:
    """One coefficient over log(depth or parameters), on the log scale unless ``log`` is False (a zero among them).

    ``held_out`` and ``mean_held_out`` are mean |predicted/fitted - 1| at left-out depths, by the regression and by the
    mean of the other runs; None with two depths. ``seed_scatter`` is the deviation among runs of one depth, in the same
    measure. ``device`` is the fitted effect of the second device, None with a single one.
    """

    name: str
    slope: Parameter
    device: Parameter | None
    held_out: float | None
    mean_held_out: float | None
    seed_scatter: float | None
    log: bool
    verdict: str


@dataclass(frozen=True)
class DepthRegression:
    """All three coefficients, with caveats."""

    axis: Axis
    runs: int
    coefficients: tuple[CoefficientFit, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LeftOutDepth:
    """A depth's loss curve predicted from other depths, compared with its measurement and with the mean curve.

    ``error`` is mean |predicted/measured - 1| over the run, ``last_error`` that of the last tenth's median; ``mean_*``
    use the mean coefficients of the other runs; ``own_error`` is that of the run's own fit, which no prediction from
    other depths should beat.
    """

    run: LossRun
    values: Array
    predicted: Array
    error: float
    last_error: float
    mean_error: float
    mean_last_error: float
    own_error: float

    @property
    def better_than_mean(self) -> bool:
        return self.error < self.mean_error


def regress(runs: Sequence[LossRun], axis: Axis = "parameters", level: float = 0.95) -> DepthRegression:
    """Regress b0, b1 and b2 on log(axis), and on the device where there are two or more.

    Raises FitError for a run without known depth or parameters, or fewer than two different ones.
    """
    x = _axis(runs, axis)
    devices = sorted({run.device for run in runs})
    coefficients = tuple(_coefficient(index, runs, x, devices, level) for index in range(3))
    notes = ["Each run has one seed unless a depth was repeated; effects within the scatter of the seeds are noise."]
    zeros = [each.name for each in coefficients if not each.log and each.held_out is not None]
    if zeros:
        notes.append(f"{', '.join(zeros)}: 0 in some runs, so errors are relative to the mean over all runs.")
    if len(devices) > 1:
        notes.append(
            f"Devices {', '.join(devices)}: a loss curve over steps does not depend on the device; any fitted effect "
            "is noise from seeds and rounding."
        )
    families = sorted({run.family for run in runs if run.family})
    if len(families) > 1:
        notes.append(
            f"Families {', '.join(families)} are mixed: their depths are not comparable; use parameters, or "
            "one family at a time."
        )
    return DepthRegression(axis, len(runs), coefficients, tuple(notes))


def leave_out_depth(runs: Sequence[LossRun], depth: int, axis: Axis = "parameters") -> tuple[LeftOutDepth, ...]:
    """Every run of ``depth``, its curve predicted from the runs of all other depths.

    Raises FitError for no run of that depth, or fewer than two other values of the axis.
    """
    here = [run for run in runs if run.depth == depth]
    rest = [run for run in runs if run.depth != depth]
    if not here:
        known = ", ".join(str(d) for d in sorted({run.depth for run in runs if run.depth is not None}))
        raise FitError(f"{MODEL}: no run of depth {depth} (depths: {known or 'none'})")
    x = _axis(rest, axis)
    mean = np.array([_inverse(float(y.mean()), log) for y, log in (_values(rest, i) for i in range(3))])
    out = []
    for run, at in zip(here, _axis_values(here, axis), strict=True):
        values = np.array([_predicted(_values(rest, i), x, at) for i in range(3)])
        k = run.steps - run.fit.first_step
        error, last = _errors(values, k, run.losses)
        mean_error, mean_last = _errors(mean, k, run.losses)
        own, _ = _errors(run.fit.values, k, run.losses)
        out.append(LeftOutDepth(run, values, curve(_safe(values), k), error, last, mean_error, mean_last, own))
    return tuple(out)


def _coefficient(index: int, runs: Sequence[LossRun], x: Array, devices: Sequence[str], level: float) -> CoefficientFit:
    y, log = _values(runs, index)
    if not log and (np.abs(y) <= AT_BOUND).all():
        none = Parameter("slope", note=NOTHING)
        return CoefficientFit(NAMES[index], none, none if len(devices) > 1 else None, None, None, None, log, NOTHING)
    columns = [np.ones_like(x), x - x.mean()]
    columns += [np.array([float(run.device == name) for run in runs]) for name in devices[1:2]]
    parameters = _least_squares(np.stack(columns, axis=1), y, level, "log" if log else "")
    held, mean_held = _held_out(y, log, x)
    scatter = _scatter(y, log, x, runs)
    return CoefficientFit(
        name=NAMES[index],
        slope=parameters[1],
        device=parameters[2] if len(devices) > 1 else None,
        held_out=held,
        mean_held_out=mean_held,
        seed_scatter=scatter,
        log=log,
        verdict=_verdict(parameters[1], held, mean_held),
    )


def _verdict(slope: Parameter, held: float | None, mean: float | None) -> str:
    if held is None or mean is None:
        return "unknown: two sizes fit any line"
    if held >= mean:
        return "noise: left-out sizes are predicted no better than by the mean of the others"
    if slope.low is None or slope.high is None or slope.low <= 0 <= slope.high:
        return "not shown: left-out sizes are predicted better than by the mean, but the slope may be 0"
    return "depends on size: left-out sizes are predicted better than by the mean of the others"


def _held_out(y: Array, log: bool, x: Array) -> tuple[float | None, float | None]:
    """Errors at left-out sizes, of the line and of the mean.

    Relative errors; relative to the mean over all runs where some runs have it at 0.
    """
    sizes = np.unique(x)
    size_of_all = float(np.abs(y).mean())
    if len(sizes) < 3:
        return None, None
    line, mean = [], []
    for size in sizes:
        here = x == size
        at = _inverse(float(np.polynomial.Polynomial.fit(x[~here], y[~here], 1)(size)), log)
        others = _inverse(float(y[~here].mean()), log)
        truth = np.array([_inverse(float(value), log) for value in y[here]])
        scale = truth if log else np.full_like(truth, size_of_all)
        line += (np.abs(at - truth) / scale).tolist()
        mean += (np.abs(others - truth) / scale).tolist()
    return float(np.mean(line)), float(np.mean(mean))


def _scatter(y: Array, log: bool, x: Array, runs: Sequence[LossRun]) -> float | None:
    """Pooled relative deviation of runs that share size and device, None where no two do."""
    groups: dict[tuple[float, str], list[float]] = {}
    for value, size, run in zip(y, x, runs, strict=True):
        groups.setdefault((float(size), run.device), []).append(float(value))
    squares = degrees = 0.0
    for values in groups.values():
        centre = sum(values) / len(values)
        scale = 1.0 if log or centre == 0 else abs(centre)
        squares += sum(((value - centre) / scale) ** 2 for value in values)
        degrees += len(values) - 1
    return math.sqrt(squares / degrees) if degrees else None


def _least_squares(design: Array, y: Array, level: float, unit: str) -> list[Parameter]:
    names = ("mean", "slope", "device")[: design.shape[1]]
    values, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-9)
    degrees = len(y) - int(rank)
    if rank < design.shape[1]:
        note = f"{NOT_IDENTIFIABLE}: size and device vary together"
        return [Parameter(name, unit=unit, note=note) for name in names]
    if degrees <= 0:
        return [Parameter(name, float(v), unit=unit, note=EXACT) for name, v in zip(names, values, strict=True)]
    error = design @ values - y
    covariance = float(error @ error) / degrees * np.linalg.inv(design.T @ design)
    half = student_quantile(degrees, level) * np.sqrt(np.diag(covariance))
    return [
        Parameter(name, float(v), float(v - h), float(v + h), unit, NEAR_ZERO if abs(v) <= h else "")
        for name, v, h in zip(names, values, half, strict=True)
    ]


def _axis_values(runs: Sequence[LossRun], axis: Axis) -> Array:
    values = [getattr(run, axis) for run in runs]
    for run, value in zip(runs, values, strict=True):
        if not value or value <= 0:
            raise FitError(f"{MODEL}: unknown {axis} of {run.label}")
    return np.log(np.array(values, dtype=np.float64))


def _axis(runs: Sequence[LossRun], axis: Axis) -> Array:
    x = _axis_values(runs, axis)
    if len(np.unique(x)) < 2:
        raise FitError(f"{MODEL}: a slope needs at least 2 different values of {axis}, got {len(np.unique(x))}")
    return x


def _values(runs: Sequence[LossRun], index: int) -> tuple[Array, bool]:
    """The coefficient of every run, as logarithms where none is 0."""
    y = np.array([run.fit.values[index] for run in runs])
    log = bool((y > AT_BOUND).all())
    return (np.log(y) if log else y), log


def _inverse(value: float, log: bool) -> float:
    return math.exp(min(value, 700.0)) if log else value


def _predicted(values: tuple[Array, bool], x: Array, at: float) -> float:
    y, log = values
    return max(0.0, _inverse(float(np.polynomial.Polynomial.fit(x, y, 1)(at)), log))


def _safe(values: Array) -> Array:
    return np.array([values[0], max(values[1], 1e-12), values[2]])


def _errors(values: Array, k: Array, losses: Array) -> tuple[float, float]:
    predicted = curve(_safe(values), k)
    tail = slice(int(len(k) * 0.9), None)
    last = float(np.median(predicted[tail]) / np.median(losses[tail]) - 1)
    return float(np.abs(predicted / losses - 1).mean()), last
