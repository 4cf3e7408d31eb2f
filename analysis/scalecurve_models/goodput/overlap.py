"""Pollux' step model (Qiao et al., OSDI 2021; petuum/adaptdl, goodput.py): compute and network, overlapped.

    T_comp = α_c + β_c m                                m samples a worker (in one micro-batch)
    T_net  = 0 with one worker; α_r + β_r max(R-2, 0) with R workers on one node; α_n + β_n max(R-2, 0) over nodes
    T_step = (T_comp^γ + T_net^γ)^(1/γ)                 γ = 1 no overlap, γ = 10 nearly full

Fitted as there: the sum of the root mean squared logarithmic errors of T_comp and T_step and of penalties that hold γ
near 1 and the β of the network small against its α. Parameters that are not identifiable are fixed as there: α_c at
half of the compute time where all batches are equal, α and β of an unused network at their minimum, β where no run had
more than two workers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalecurve.statistics.spread import student_quantile
from scalecurve_api.text import count
from scalecurve_models.fitting.least_squares import (
    EXACT,
    LEVEL,
    NOT_IDENTIFIABLE,
    Array,
    FitError,
    Parameter,
    Prediction,
    log_interval,
    mean_absolute,
    positive_array,
)
from scalecurve_models.goodput.overlap_solver import GAMMA, NAMES, Runs, fix_parameters, minimize, slopes, times

MODEL = "overlap model"
UNITS = ("s", "s/sample", "s", "s", "s", "s", "")


@dataclass(frozen=True)
class StepTime:
    """A measured step: ``batch`` samples per worker in one micro-batch, seconds; ``compute_s`` without communication.

    With one worker the step is the compute time.
    """

    workers: int
    nodes: int
    batch: float
    step_s: float
    compute_s: float | None = None

    @property
    def run(self) -> tuple[int, int, float]:
        return self.workers, self.nodes, self.batch


@dataclass(frozen=True)
class OverlapFit:
    """A fitted step model; ``residuals`` and ``held_out`` are predicted/measured - 1 of the step time by point.

    ``held_out`` predicts each point from those of other (workers, nodes, batch); None where the others do not cover
    its network or its compute time.
    """

    values: Array
    parameters: tuple[Parameter, ...]
    points: tuple[StepTime, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float | None, ...]
    notes: tuple[str, ...]
    _free: tuple[int, ...]
    _covariance: Array | None
    _variance: float
    _degrees: int

    @property
    def held_out_mean(self) -> float | None:
        return mean_absolute(self.held_out)

    def step_s(self, workers: int, batch: float, *, nodes: int = 1) -> float:
        """Seconds of a step. Raises FitError for an invalid placement or batch."""
        _check_run(workers, nodes, batch)
        return float(times(self.values, Runs.of([(workers, nodes, batch)]))[1][0])

    def predict(self, workers: int, batch: float, *, nodes: int = 1) -> Prediction:
        value = self.step_s(workers, batch, nodes=nodes)
        if self._covariance is None:
            return Prediction(value)
        slope = slopes(self.values, self._free, Runs.of([(workers, nodes, batch)]))[1][0]
        spread = self._variance + float(slope @ self._covariance @ slope)
        half = student_quantile(self._degrees, LEVEL) * math.sqrt(spread)
        return log_interval(value, half)


def fit_overlap(points: Sequence[StepTime]) -> OverlapFit:
    """Fit the model to measured steps of any workers, nodes and batches of one program.

    Raises FitError for fewer than two different runs, none whose compute time is known, or times that are not positive.
    """
    kept = [replace(point, compute_s=point.step_s) if point.workers == 1 else point for point in points]
    _check(kept)
    fit = _fit(kept)
    predicted = {run: _left_out(kept, run, fit.values) for run in {point.run for point in kept}}
    errors = [predicted[point.run] for point in kept]
    held_out = tuple(None if p is None else p / point.step_s - 1 for p, point in zip(errors, kept, strict=True))
    return replace(fit, held_out=held_out)


def _check(points: Sequence[StepTime]) -> None:
    positive_array(MODEL, "step times", [point.step_s for point in points])
    positive_array(MODEL, "compute times", [point.compute_s for point in points if point.compute_s is not None])
    for point in points:
        _check_run(*point.run)
    runs = len({point.run for point in points})
    if runs < 2:
        raise FitError(f"{MODEL}: needs at least 2 different runs (workers, nodes, batch), got {runs}")
    if all(point.compute_s is None for point in points):
        raise FitError(f"{MODEL}: needs a compute time, from a run with 1 worker or from steps without the all-reduce")


def _check_run(workers: int, nodes: int, batch: float) -> None:
    if not (1 <= nodes <= workers and math.isfinite(batch) and batch > 0):
        raise FitError(
            f"{MODEL}: expected 1 or more nodes, at least as many workers, and a positive batch, "
            f"got {count(workers, 'worker')} on {count(nodes, 'node')} with a batch of {batch:g}"
        )


def _fit(points: Sequence[StepTime], near: Array | None = None) -> OverlapFit:
    runs = Runs.of([point.run for point in points])
    compute = np.array([np.nan if point.compute_s is None else point.compute_s for point in points])
    steps = np.array([point.step_s for point in points])
    fixed = fix_parameters(runs, compute)
    free = tuple(index for index in range(len(NAMES)) if index not in fixed)
    values = minimize(runs, compute, steps, fixed, free, near)
    known = np.isfinite(compute)
    fitted_compute, fitted = times(values, runs)
    # With one worker the step is the compute time; count it once.
    apart = known & (runs.workers > 1)
    errors = np.concatenate([np.log(fitted / steps), np.log(fitted_compute[apart] / compute[apart])])
    both = slopes(values, free, runs)
    jacobian = np.concatenate([both[1], both[0][apart]])
    degrees = len(errors) - len(free)
    variance = float(errors @ errors) / degrees if degrees > 0 else 0.0
    covariance = None
    if degrees > 0:
        # A ridge far below any signal: a direction that no run determines gets a huge variance, not 0.
        squares = jacobian.T @ jacobian
        covariance = variance * np.linalg.inv(squares + 1e-12 * np.trace(squares) * np.eye(len(free)))
    if not (runs.nodes > 1).any():
        # An unused network between nodes is taken as at least 1.1 times as slow as the one within a node.
        values[2:4] = np.maximum(values[2:4], 1.1 * values[4:6])
    different = len({point.run for point in points})
    tested = f"{count(len(free), 'parameter')} for {len(errors)} measured times of {count(different, 'run')}"
    return OverlapFit(
        values=values,
        parameters=tuple(
            Parameter(NAMES[i], unit=UNITS[i], note=f"{NOT_IDENTIFIABLE}: {fixed[i][1]}")
            if i in fixed
            else _parameter(i, float(values[i]), _half(covariance, free.index(i), degrees))
            for i in range(len(NAMES))
        ),
        points=tuple(points),
        residuals=tuple(float(e) for e in fitted / steps - 1),
        held_out=(),
        notes=(f"{tested}; the penalties choose among many fits",) if len(errors) < len(free) else (),
        _free=free,
        _covariance=covariance,
        _variance=variance,
        _degrees=degrees,
    )


def _half(covariance: Array | None, place: int, degrees: int) -> float | None:
    if covariance is None:
        return None
    return student_quantile(degrees, LEVEL) * math.sqrt(max(float(covariance[place, place]), 0.0))


def _parameter(index: int, value: float, half: float | None) -> Parameter:
    name, unit = NAMES[index], UNITS[index]
    if half is None:
        return Parameter(name, value, unit=unit, note=EXACT)
    if index == len(NAMES) - 1:
        low, high = max(GAMMA[0], value - half), min(GAMMA[1], value + half)
        if (low, high) == GAMMA:
            note = f"{NOT_IDENTIFIABLE}: any overlap from none to full fits equally"
            return Parameter(name, None, low, high, unit, note)
        return Parameter(name, value, low, high, unit)
    # The others are fitted by their logarithms.
    if half > math.log(10):
        # The value is not shown either: its digits would depend on the machine.
        return Parameter(name, unit=unit, note=f"{NOT_IDENTIFIABLE}: a tenth or ten times the value fits about as well")
    return Parameter(name, value, value * math.exp(-half), value * math.exp(half), unit)


def _left_out(points: Sequence[StepTime], run: tuple[int, int, float], near: Array) -> float | None:
    """The step time of ``run`` from the other runs; None where they do not cover its network or its compute time."""
    rest = [point for point in points if point.run != run]
    workers, nodes, batch = run
    alike = [p for p in rest if (p.nodes > 1) == (nodes > 1) and (p.workers > 1) == (workers > 1)]
    if not alike or all(point.compute_s is None for point in rest) or len({p.run for p in rest}) < 2:
        return None
    if batch not in {p.batch for p in rest} and len({p.batch for p in rest}) < 2:
        return None
    return _fit(rest, near).step_s(workers, batch, nodes=nodes)
