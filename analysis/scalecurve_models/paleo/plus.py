"""Paleo+: Paleo's step plus message latency, the ring, and overlap of exchange and compute. Not part of Paleo.

    exchange = crossings * D / B / ppp_comm + messages * latency
    step     = (compute**g + exchange**g) ** (1 / g)

g = 1 is no overlap, as in Paleo; g = 10 is close to the longer of the two. The form is that of Pollux
(A. Qiao et al., OSDI 2021; petuum/adaptdl, goodput.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from scalecurve.statistics.intervals import student_quantile
from scalecurve_models.fitting.least_squares import EXACT, NEAR_ZERO, FitError, Parameter, collinear_note
from scalecurve_models.paleo.calibration import MeasuredStep
from scalecurve_models.paleo.communication import RING, SCHEMES, Scheme, exchange_ms
from scalecurve_models.paleo.costs import costs_of
from scalecurve_models.paleo.scaling import Platform, StepPrediction, predict_step
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
GUESSES = {
    "overlap": (log(1.2), log(4.0)),
    "ppp_comm": (log(0.3), log(1.0)),
    "latency_us": (1.0, 100.0),
}
TIGHT = 1e-12
FLAT = 1e-7
"""Below this fraction of the steepest direction, a direction is not identifiable."""

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
            "scheme": self.terms.scheme,
            "overlap": self.terms.overlap,
            "latency_us": self.terms.latency_us,
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
    level: float = 0.95,
) -> PlusFit:
    """Fit any of overlap, ppp_comm and latency_us to measured steps of several workers; the PPP is the platform's.

    Least squares of log(predicted / measured). Raises FitError for fewer points than parameters, a point of one
    worker, or an unknown parameter. ``start`` holds the terms that are not free.
    """
    unknown = [name for name in free if name not in FREE]
    if unknown or not free or len(set(free)) != len(free):
        raise FitError(f"parameters {', '.join(free) or 'none'}: expected one or more of {', '.join(FREE)}, each once")
    if len(points) < len(free):
        raise FitError(
            f"{len(free)} parameters ({', '.join(free)}) need as many steps of several workers, got {len(points)}"
        )
    for point in points:
        if point.workers < 2:
            raise FitError("Paleo+ is fitted to steps of several workers, got a step of 1")
    problem = _Problem.of(points, platform, tuple(free), start or PlusTerms(), variant)
    return problem.fit(platform, level)


@dataclass(frozen=True)
class _Problem:
    """Per point: milliseconds alone, milliseconds of exchange at full rate, messages, milliseconds measured.

    The unknowns are the logarithms of overlap and ppp_comm, and the latency in microseconds.
    """

    compute: Array
    bandwidth: Array
    messages: Array
    measured: Array
    free: tuple[str, ...]
    fixed: dict[str, float]
    terms: PlusTerms

    @classmethod
    def of(
        cls,
        points: Sequence[MeasuredStep],
        platform: Platform,
        free: tuple[str, ...],
        terms: PlusTerms,
        variant: Variant,
    ) -> _Problem:
        scheme, at_peak = PLUS_SCHEMES[terms.scheme], replace(platform, ppp_comm=1.0)
        compute, bandwidth = [], []
        for point in points:
            alone = predict_step(point.network, at_peak, batch=point.batch_per_worker, variant=variant)
            compute.append(alone.compute_ms)
            sent = costs_of(point.network, variant).parameter_bytes
            bandwidth.append(exchange_ms(sent, platform.link, point.workers, scheme))
        fixed = {"overlap": log(terms.overlap), "ppp_comm": log(platform.ppp_comm), "latency_us": terms.latency_us}
        return cls(
            np.array(compute),
            np.array(bandwidth),
            np.array([scheme.messages(point.workers) for point in points], dtype=np.float64),
            np.array([point.step_ms for point in points]),
            free,
            fixed,
            terms,
        )

    def residuals(self, unknowns: Array) -> Array:
        at = self.fixed | dict(zip(self.free, unknowns.tolist(), strict=True))
        exchange = self.bandwidth / exp(at["ppp_comm"]) + self.messages * at["latency_us"] / 1e3
        steps = [overlapped(c, e, exp(at["overlap"])) for c, e in zip(self.compute, exchange, strict=True)]
        logs: Array = np.log(np.array(steps) / self.measured)
        return logs

    def fit(self, platform: Platform, level: float) -> PlusFit:
        from scipy.optimize import least_squares

        low = [BOUNDS[name][0] for name in self.free]
        high = [BOUNDS[name][1] for name in self.free]
        best = min(
            (
                least_squares(
                    self.residuals, start, bounds=(low, high), x_scale="jac", xtol=TIGHT, ftol=TIGHT, gtol=TIGHT
                )
                for start in self._starts()
            ),
            key=lambda result: float(result.cost),
        )
        parameters = self._parameters(np.asarray(best.x), np.asarray(best.jac), float(best.cost), level)
        fitted = {name: _from(name, value) for name, value in zip(self.free, best.x.tolist(), strict=True)}
        terms = PlusTerms(
            fitted.get("overlap", self.terms.overlap),
            fitted.get("latency_us", self.terms.latency_us),
            self.terms.scheme,
        )
        on = replace(platform, ppp_comm=fitted.get("ppp_comm", platform.ppp_comm))
        return PlusFit(parameters, terms, on, tuple(np.expm1(best.fun).tolist()))

    def _starts(self) -> list[list[float]]:
        starts: list[list[float]] = [[]]
        for name in self.free:
            starts = [[*start, guess] for start in starts for guess in GUESSES[name]]
        return starts

    def _parameters(self, at: Array, slopes: Array, cost: float, level: float) -> tuple[Parameter, ...]:
        degrees = len(self.measured) - len(self.free)
        lengths = np.sqrt((slopes**2).sum(axis=0))
        _, singular, right = np.linalg.svd(slopes / np.where(lengths > 0, lengths, 1.0), full_matrices=True)
        rank = int((singular > FLAT * max(singular[0], 1e-300)).sum()) if lengths.max() > 0 else 0
        shared = np.abs(right[rank:].T @ right[rank:]) > 1e-6
        covariance = np.linalg.pinv(slopes.T @ slopes) * (2 * cost / degrees if degrees else 0.0)
        parameters = []
        for index, name in enumerate(self.free):
            unit = "us" if name == "latency_us" else ""
            value = _from(name, float(at[index]))
            if shared[index, index]:
                tied = [other for other, is_tied in zip(self.free, shared[index], strict=True) if is_tied]
                parameters.append(Parameter(name, unit=unit, note=collinear_note(name, tied)))
            elif not degrees:
                parameters.append(Parameter(name, value, unit=unit, note=EXACT))
            else:
                half = student_quantile(degrees, level) * float(np.sqrt(covariance[index, index]))
                ends = (max(BOUNDS[name][0], at[index] - half), min(BOUNDS[name][1], at[index] + half))
                low, high = (_from(name, float(end)) for end in ends)
                parameters.append(Parameter(name, value, low, high, unit, _bound_note(name, value, low, high)))
        return tuple(parameters)


def _from(name: str, unknown: float) -> float:
    if name == "overlap":
        return min(MOST_OVERLAP, max(LEAST_OVERLAP, exp(unknown)))
    return unknown if name == "latency_us" else exp(unknown)


def _bound_note(name: str, value: float, low: float, high: float) -> str:
    ends = [_from(name, end) for end in BOUNDS[name]]
    if np.isclose(value, ends, rtol=1e-6, atol=1e-6).any():
        return "at its bound"
    if (low <= ends[0] and high >= ends[1]) or high > 10 * low > 0:
        return "barely identifiable from these points"
    return NEAR_ZERO if low == 0 else ""
