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

from scalecurve.statistics.spread import student_quantile
from scalecurve_models.fitting.least_squares import (
    EXACT,
    LEVEL,
    NEAR_ZERO,
    NOT_IDENTIFIABLE,
    Array,
    FitError,
    Parameter,
)
from scalecurve_models.optimus.curve import curve
from scalecurve_models.optimus.loss import NAMES, LossFit

MODEL = "coefficients over depth"
Axis = Literal["depth", "parameters"]
AT_BOUND = 1e-9  # a coefficient up to this size is 0 up to the solver's last step
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
    measure. ``device`` is the fitted effect of the second device, None with a single one, and ``further_devices`` those
    of the third and all others, each against the first.
    """

    name: str
    slope: Parameter
    device: Parameter | None
    held_out: float | None
    mean_held_out: float | None
    seed_scatter: float | None
    log: bool
    verdict: str
    further_devices: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class DepthRegression:
    """All three coefficients, with caveats."""

    axis: Axis
    coefficients: tuple[CoefficientFit, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LeftOutDepth:
    """A depth's loss curve predicted from other depths, compared with its measurement and with the mean curve.

    ``error`` is mean |predicted/measured - 1| over the run, ``last_error`` that of the last tenth's median; ``mean_*``
    use the mean coefficients of the other runs; ``own_error`` is that of the run's own fit, which no prediction from
    other depths should beat. ``values`` and ``mean_values`` are b0, b1, b2 of both, from the run's first step on.
    """

    run: LossRun
    error: float
    last_error: float
    mean_error: float
    mean_last_error: float
    own_error: float
    values: tuple[float, ...] = ()
    mean_values: tuple[float, ...] = ()

    @property
    def better_than_mean(self) -> bool:
        return self.error < self.mean_error


def regress(runs: Sequence[LossRun], axis: Axis = "parameters") -> DepthRegression:
    """Regress b0, b1 and b2 on log(axis), and on the device where there are two or more.

    Raises FitError for a run without known depth or parameters, or fewer than two different ones.
    """
    x = _axis(runs, axis)
    devices = sorted({run.device for run in runs})
    coefficients = tuple(_coefficient(index, runs, x, devices) for index in range(3))
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
    return DepthRegression(axis, coefficients, tuple(notes))


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
    coefficients = [_values(rest, index) for index in range(3)]
    mean = np.array([_inverse(float(y.mean()), log) for y, log in coefficients])
    out = []
    for run, at in zip(here, _axis_values(here, axis), strict=True):
        lines = ((np.polynomial.Polynomial.fit(x, y, 1), log) for y, log in coefficients)
        values = np.array([max(0.0, _inverse(float(line(at)), log)) for line, log in lines])
        k = run.steps - run.fit.first_step
        error, last = _errors(values, k, run.losses)
        mean_error, mean_last = _errors(mean, k, run.losses)
        own, _ = _errors(run.fit.values, k, run.losses)
        coefficients_of = (tuple(map(float, values)), tuple(map(float, mean)))
        out.append(LeftOutDepth(run, error, last, mean_error, mean_last, own, *coefficients_of))
    return tuple(out)


def _coefficient(index: int, runs: Sequence[LossRun], x: Array, devices: Sequence[str]) -> CoefficientFit:
    y, log = _values(runs, index)
    if not log and (np.abs(y) <= AT_BOUND).all():
        none = Parameter("slope", note=NOTHING)
        more = (none,) * max(0, len(devices) - 2)
        device = none if len(devices) > 1 else None
        return CoefficientFit(NAMES[index], none, device, None, None, None, log, NOTHING, more)
    columns = [np.ones_like(x), x - x.mean()]
    columns += [np.array([float(run.device == name) for run in runs]) for name in devices[1:]]
    parameters = _least_squares(np.stack(columns, axis=1), y, "log" if log else "")
    held, mean_held = _cross_validate(y, log, x)
    return CoefficientFit(
        name=NAMES[index],
        slope=parameters[1],
        device=parameters[2] if len(devices) > 1 else None,
        held_out=held,
        mean_held_out=mean_held,
        seed_scatter=_scatter(y, log, x, runs),
        log=log,
        verdict=_verdict(parameters[1], held, mean_held),
        further_devices=tuple(parameters[3:]),
    )


def _verdict(slope: Parameter, held: float | None, mean: float | None) -> str:
    if held is None or mean is None:
        return "unknown: two sizes fit any line"
    if held >= mean:
        return "noise: left-out sizes are predicted no better than by the mean of the others"
    if slope.low is None or slope.high is None or slope.low <= 0 <= slope.high:
        return "not shown: left-out sizes are predicted better than by the mean, but the slope may be 0"
    return "depends on size: left-out sizes are predicted better than by the mean of the others"


def _cross_validate(y: Array, log: bool, x: Array) -> tuple[float | None, float | None]:
    """Relative errors at left-out sizes, of the line and of the mean; relative to the mean where some runs have 0."""
    sizes = np.unique(x)
    if len(sizes) < 3:
        return None, None
    line, mean = [], []
    for size in sizes:
        here = x == size
        at = _inverse(float(np.polynomial.Polynomial.fit(x[~here], y[~here], 1)(size)), log)
        others = _inverse(float(y[~here].mean()), log)
        truth = np.array([_inverse(float(value), log) for value in y[here]])
        scale = truth if log else np.full_like(truth, np.abs(y).mean())
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


def _least_squares(design: Array, y: Array, unit: str) -> list[Parameter]:
    names = ["mean", "slope", *["device"] * (design.shape[1] - 2)]
    values, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-9)
    degrees = len(y) - int(rank)
    if rank < design.shape[1]:
        note = f"{NOT_IDENTIFIABLE}: size and device vary together"
        return [Parameter(name, unit=unit, note=note) for name in names]
    if degrees <= 0:
        return [Parameter(name, float(v), unit=unit, note=EXACT) for name, v in zip(names, values, strict=True)]
    error = design @ values - y
    covariance = float(error @ error) / degrees * np.linalg.inv(design.T @ design)
    half = student_quantile(degrees, LEVEL) * np.sqrt(np.diag(covariance))
    return [
        Parameter(name, float(v), float(v - h), float(v + h), unit, NEAR_ZERO if abs(v) <= h else "")
        for name, v, h in zip(names, values, half, strict=True)
    ]


def _axis_values(runs: Sequence[LossRun], axis: Axis) -> Array:
    for run in runs:
        if not getattr(run, axis) or getattr(run, axis) <= 0:
            raise FitError(f"{MODEL}: unknown {axis} of {run.label}")
    return np.log([float(getattr(run, axis)) for run in runs])


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


def _errors(values: Array, k: Array, losses: Array) -> tuple[float, float]:
    predicted = curve(np.array([values[0], max(values[1], 1e-12), values[2]]), k)
    tail = slice(int(len(k) * 0.9), None)
    last = float(np.median(predicted[tail]) / np.median(losses[tail]) - 1)
    return float(np.abs(predicted / losses - 1).mean()), last
