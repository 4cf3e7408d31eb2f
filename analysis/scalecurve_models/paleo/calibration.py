"""The platform percent of peak (PPP) from measured steps of one worker.

PPP is not a constant of a platform: it differs between networks, devices and precisions, exceeds 1 where fewer
operations are done than Paleo counts (Winograd), and falls where Paleo counts no traffic (batch normalization, ReLU).
So each point's exact PPP is shown with the common one, which is valid for the family of networks it came from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log, sqrt

from scalecurve.statistics.intervals import student_quantile
from scalecurve_models.fitting.least_squares import EXACT, FitError, Parameter
from scalecurve_models.networks.graph import Network
from scalecurve_models.paleo.scaling import Platform, predict_step
from scalecurve_models.paleo.terms import HEAD, Variant

LEAST, MOST = 1e-6, 1e6


@dataclass(frozen=True)
class MeasuredStep:
    """A measured step: the network, the batch of each worker, the workers, and milliseconds."""

    network: Network
    batch_per_worker: int
    step_ms: float
    workers: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.step_ms < inf:
            raise FitError(f"step time {self.step_ms!r} ms: expected a positive number")


@dataclass(frozen=True)
class CalibratedPoint:
    """A measured step with the prediction at the common PPP, and the PPP that matches it exactly."""

    measured: MeasuredStep
    predicted_ms: float
    exact_ppp: float

    @property
    def error(self) -> float:
        return self.predicted_ms / self.measured.step_ms - 1


@dataclass(frozen=True)
class PppCalibration:
    """The common PPP for compute, and its errors at the points it was fitted to."""

    ppp_comp: Parameter
    points: tuple[CalibratedPoint, ...]
    platform: Platform
    """The platform with the fitted PPP."""

    @property
    def notes(self) -> tuple[str, ...]:
        ppps = [point.exact_ppp for point in self.points]
        notes = ["One-worker steps carry no information on the PPP for communication; it is not changed."]
        if len(ppps) == 1:
            notes.append("One point for one parameter: an exact fit, without an error estimate.")
        else:
            notes.append(f"Exact PPPs of the points range from {min(ppps):.3g} to {max(ppps):.3g}.")
        return tuple(notes)


def calibrate(
    points: Sequence[MeasuredStep],
    platform: Platform,
    *,
    variant: Variant = HEAD,
    level: float = 0.95,
) -> PppCalibration:
    """Find the PPP for compute with the least squares of log(predicted / measured).

    Raises FitError for no points, a point of several workers, or a step shorter than its update alone, which Paleo
    charges at full peak regardless of PPP.
    """
    if not points:
        raise FitError("a PPP needs at least one measured step of one worker, got none")
    for point in points:
        if point.workers != 1:
            raise FitError(f"a PPP is fitted to steps of one worker, got a step of {point.workers}")

    steps = [partial(_step_ms, point, platform, variant) for point in points]
    exact = [_exact(point, step) for point, step in zip(points, steps, strict=True)]
    common = _common(points, exact, steps)
    predicted = [step(common) for step in steps]
    degrees = len(points) - 1
    low = high = None
    if degrees:
        squares = sum(log(p / point.step_ms) ** 2 for p, point in zip(predicted, points, strict=True))
        slopes = sum((log(step(common + 1e-4) / step(common - 1e-4)) / 2e-4) ** 2 for step in steps)
        half = student_quantile(degrees, level) * sqrt(squares / degrees / slopes)
        low, high = exp(common - half), exp(common + half)
    note = "" if degrees else EXACT
    return PppCalibration(
        Parameter("ppp_comp", exp(common), low, high, "", note),
        tuple(CalibratedPoint(*each) for each in zip(points, predicted, map(exp, exact), strict=True)),
        replace(platform, ppp_comp=exp(common)),
    )


def _step_ms(point: MeasuredStep, platform: Platform, variant: Variant, log_ppp: float) -> float:
    scaled = replace(platform, ppp_comp=exp(log_ppp))
    return predict_step(point.network, scaled, batch=point.batch_per_worker, variant=variant).compute_ms


def _exact(point: MeasuredStep, step: Callable[[float], float]) -> float:
    """Log of the PPP that matches this point exactly; a step only gets shorter as PPP rises."""
    from scipy.optimize import brentq

    shortest, longest = step(log(MOST)), step(log(LEAST))
    where = f"{point.network.name} with a batch of {point.batch_per_worker}: measured {point.step_ms:.6g} ms"
    if point.step_ms <= shortest:
        raise FitError(f"{where}, but Paleo needs {shortest:.6g} ms for the update alone; no PPP gives this step")
    if point.step_ms >= longest:
        raise FitError(f"{where}, a PPP below {LEAST:g}; check the unit and the device")
    return float(brentq(lambda x: log(step(x) / point.step_ms), log(LEAST), log(MOST), xtol=1e-12))


def _common(points: Sequence[MeasuredStep], exact: Sequence[float], steps: Sequence[Callable[[float], float]]) -> float:
    """Log of the PPP with the least squares; it lies within the range of the exact ones."""
    from scipy.optimize import minimize_scalar

    low, high = min(exact), max(exact)
    if high - low < 1e-12:
        return low

    def squares(x: float) -> float:
        return sum(log(step(x) / point.step_ms) ** 2 for step, point in zip(steps, points, strict=True))

    return float(minimize_scalar(squares, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x)
