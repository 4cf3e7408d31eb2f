"""Paleo+: Paleo's step plus message latency, the ring, and overlap of exchange and compute. Not part of Paleo.

    exchange = crossings * D / B / ppp_comm + messages * latency
    step     = (compute**g + exchange**g) ** (1 / g)

g = 1 is no overlap, as in Paleo; g = 10 is close to the longer of the two. The form is that of Pollux
(A. Qiao et al., OSDI 2021; petuum/adaptdl, goodput.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from scalecurve.statistics.spread import student_quantile
from scalecurve_models.fitting.least_squares import (
    EXACT,
    LEVEL,
    NEAR_ZERO,
    FitError,
    Parameter,
    collinear_note,
    find_tied_columns,
)
from scalecurve_models.paleo.calibration import MeasuredStep
from scalecurve_models.paleo.costs import costs_of
from scalecurve_models.paleo.scaling import RING, SCHEMES, Platform, Scheme, StepPrediction, exchange_ms, predict_step
from scalecurve_models.paleo.terms import HEAD, PaleoError, Variant

PLUS_SCHEMES: Mapping[str, Scheme] = {**SCHEMES, RING.name: RING}
LEAST_OVERLAP, MOST_OVERLAP = 1.0, 10.0
MOST_LATENCY_US = 1e6
FREE = ("overlap", "ppp_comm", "latency_us")
BOUNDS = {
    "overlap": (log(LEAST_OVERLAP), log(MOST_OVERLAP)),
    "ppp_comm": (log(1e-4), log(1e4)),
    "latency_us": (0.0, MOST_LATENCY_US),
}
GUESSES = {"overlap": (log(1.2), log(4.0)), "ppp_comm": (log(0.3), log(1.0)), "latency_us": (1.0, 100.0)}
TIGHT = 1e-12
FLAT = 1e-7  # below this fraction of the steepest direction, a direction is not identifiable

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PlusTerms:
    """What Paleo+ adds: the exponent g, microseconds per message, and the scheme. Raises PaleoError out of range."""

    overlap: float = 1.0
    latency_us: float = 0.0
    scheme: str = "ring"

    def __post_init__(self) -> None:
        if not LEAST_OVERLAP <= self.overlap <= MOST_OVERLAP:
            raise PaleoError(f"overlap {self.overlap!r}: expected a number from 1 (none) to 10 (nearly full)")
        if not 0 <= self.latency_us <= MOST_LATENCY_US:
            raise PaleoError(f"latency {self.latency_us!r} us: expected a number from 0 to {MOST_LATENCY_US:,.0f}")
        if self.scheme not in PLUS_SCHEMES:
            raise PaleoError(f"scheme {self.scheme!r}: expected one of {', '.join(PLUS_SCHEMES)}")


@dataclass(frozen=True)
class PlusPrediction:
    """Paleo's prediction with the exchange of one scheme, partly overlapped; milliseconds."""

    paleo: StepPrediction
    terms: PlusTerms
    exchange_ms: float

    @property
    def step_ms(self) -> float:
        return overlapped(self.paleo.compute_ms, self.exchange_ms, self.terms.overlap)

    @property
    def exposed_ms(self) -> float:
        """Exposed communication: the step minus the compute of one worker."""
        return self.step_ms - self.paleo.compute_ms

    @property
    def throughput(self) -> float:
        return self.paleo.samples / self.step_ms * 1e3

    def plain(self) -> dict[str, Any]:
        return {
            **self.paleo.plain(),
            "model": "paleo+",
            **vars(self.terms),
            "exchange_ms": self.exchange_ms,
            "exposed_ms": self.exposed_ms,
            "step_ms": self.step_ms,
            "throughput": self.throughput,
        }


@dataclass(frozen=True)
class PlusFit:
    """Fitted terms with their intervals, and each point's relative error."""

    parameters: tuple[Parameter, ...]
    terms: PlusTerms
    platform: Platform
    errors: tuple[float, ...]


def overlapped(compute_ms: float, exchange: float, overlap: float) -> float:
    """(compute**g + exchange**g) ** (1 / g), without powers of large numbers."""
    longer, shorter = max(compute_ms, exchange), min(compute_ms, exchange)
    return longer * (1 + (shorter / longer) ** overlap) ** (1 / overlap) if longer > 0 else 0.0


def with_plus(prediction: StepPrediction, parameter_bytes: int, platform: Platform, terms: PlusTerms) -> PlusPrediction:
    """Add the terms of Paleo+ to a prediction of Paleo."""
    scheme = PLUS_SCHEMES[terms.scheme]
    sent = exchange_ms(parameter_bytes, platform.link, prediction.workers, scheme, platform.ppp_comm)
    latency = scheme.messages(prediction.workers) * terms.latency_us / 1e3
    return PlusPrediction(prediction, terms, sent + latency)


def fit_plus(
    points: Sequence[MeasuredStep],
    platform: Platform,
    *,
    free: Sequence[str] = ("overlap",),
    start: PlusTerms | None = None,
    variant: Variant = HEAD,
) -> PlusFit:
    """Fit any of overlap, ppp_comm and latency_us to measured steps of several workers; the PPP is the platform's.

    Least squares of log(predicted / measured). Raises FitError for fewer points than parameters, a point of one
    worker, or an unknown parameter. ``start`` holds the terms that are not free.
    """
    if not free or len({*free} & {*FREE}) != len(free):
        raise FitError(f"parameters {', '.join(free) or 'none'}: expected one or more of {', '.join(FREE)}, each once")
    if len(points) < len(free):
        raise FitError(
            f"{len(free)} parameters ({', '.join(free)}) need as many steps of several workers, got {len(points)}"
        )
    if any(point.workers < 2 for point in points):
        raise FitError("Paleo+ is fitted to steps of several workers, got a step of 1")
    terms = start or PlusTerms()
    residuals = _residuals(points, platform, free, terms, variant)
    best = _lowest(residuals, free)
    fitted = {name: _parameter_value(name, value) for name, value in zip(free, best.x.tolist(), strict=True)}
    return PlusFit(
        parameters=_parameters(free, best, len(points) - len(free)),
        terms=PlusTerms(fitted.get("overlap", terms.overlap), fitted.get("latency_us", terms.latency_us), terms.scheme),
        platform=replace(platform, ppp_comm=fitted.get("ppp_comm", platform.ppp_comm)),
        errors=tuple(np.expm1(best.fun).tolist()),
    )


def _residuals(
    points: Sequence[MeasuredStep], platform: Platform, free: Sequence[str], terms: PlusTerms, variant: Variant
) -> Callable[[Array], Array]:
    """log(predicted / measured) from the logarithms of overlap and ppp_comm, and the latency in microseconds."""
    scheme = PLUS_SCHEMES[terms.scheme]
    compute, bandwidth = [], []
    for point in points:
        alone = predict_step(point.network, platform, batch=point.batch_per_worker, variant=variant)
        compute.append(alone.compute_ms)
        sent = costs_of(point.network, variant).parameter_bytes
        bandwidth.append(exchange_ms(sent, platform.link, point.workers, scheme))
    messages = [scheme.messages(point.workers) for point in points]
    fixed = {"overlap": log(terms.overlap), "ppp_comm": log(platform.ppp_comm), "latency_us": terms.latency_us}

    def residuals(unknowns: Array) -> Array:
        at = fixed | dict(zip(free, unknowns.tolist(), strict=True))
        exchange = np.array(bandwidth) / exp(at["ppp_comm"]) + np.array(messages) * at["latency_us"] / 1e3
        steps = [overlapped(c, e, exp(at["overlap"])) for c, e in zip(compute, exchange, strict=True)]
        logs: Array = np.log(np.array(steps) / [point.step_ms for point in points])
        return logs

    return residuals


def _lowest(residuals: Callable[[Array], Array], free: Sequence[str]) -> Any:
    from scipy.optimize import least_squares

    bounds = tuple(zip(*(BOUNDS[name] for name in free), strict=True))
    tight = {"xtol": TIGHT, "ftol": TIGHT, "gtol": TIGHT}
    starts = product(*(GUESSES[name] for name in free))
    found = (least_squares(residuals, start, bounds=bounds, x_scale="jac", **tight) for start in starts)
    return min(found, key=lambda solution: float(solution.cost))


def _parameters(free: Sequence[str], best: Any, degrees: int) -> tuple[Parameter, ...]:
    _, tied = find_tied_columns(best.jac, free, FLAT)
    covariance = np.linalg.pinv(best.jac.T @ best.jac) * (2 * best.cost / degrees if degrees else 0.0)
    parameters = []
    for index, (name, at) in enumerate(zip(free, best.x.tolist(), strict=True)):
        unit = "us" if name == "latency_us" else ""
        value = _parameter_value(name, at)
        if tied[index]:
            parameters.append(Parameter(name, unit=unit, note=collinear_note(name, tied[index])))
        elif not degrees:
            parameters.append(Parameter(name, value, unit=unit, note=EXACT))
        else:
            half = student_quantile(degrees, LEVEL) * float(np.sqrt(covariance[index, index]))
            low, high = (_parameter_value(name, float(end)) for end in np.clip([at - half, at + half], *BOUNDS[name]))
            parameters.append(Parameter(name, value, low, high, unit, _bound_note(name, value, low, high)))
    return tuple(parameters)


def _parameter_value(name: str, unknown: float) -> float:
    if name == "overlap":
        return min(MOST_OVERLAP, max(LEAST_OVERLAP, exp(unknown)))
    return unknown if name == "latency_us" else exp(unknown)


def _bound_note(name: str, value: float, low: float, high: float) -> str:
    ends = [_parameter_value(name, end) for end in BOUNDS[name]]
    if np.isclose(value, ends, rtol=1e-6, atol=1e-6).any():
        return "at its bound"
    if (low <= ends[0] and high >= ends[1]) or high > 10 * low > 0:
        return "barely identifiable from these points"
    return NEAR_ZERO if low == 0 else ""
