"""The platform percent of peak (PPP) from measured steps of one worker.

PPP is not a constant of a platform: it differs between networks, devices and precisions, exceeds 1 where fewer
operations are done than Paleo counts (Winograd), and falls where Paleo counts no traffic (batch normalization, ReLU).
So each point's exact PPP is shown with the common one, which is valid for the family of networks it came from.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log, sqrt
from pathlib import Path

from scalecurve.statistics.spread import student_quantile
from scalecurve_api.files import read_regular
from scalecurve_models.fitting.least_squares import EXACT, LEVEL, FitError, Parameter
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
    platform: Platform  # with the fitted PPP

    @property
    def sentence(self) -> str:
        """The common PPP, with its interval where there is one."""
        ppp = self.ppp_comp
        interval = "" if ppp.low is None or ppp.high is None else f" (95 %: {ppp.low:.3g} to {ppp.high:.3g})"
        return f"PPP for compute: {ppp.value:.4g}{interval}"

    @property
    def notes(self) -> tuple[str, ...]:
        ppps = [point.exact_ppp for point in self.points]
        many = f"Exact PPPs of the points range from {min(ppps):.3g} to {max(ppps):.3g}."
        one = "One point for one parameter: an exact fit, without an error estimate."
        unknown = "One-worker steps carry no information on the PPP for communication; it is not changed."
        return unknown, many if len(ppps) > 1 else one


def calibrate(points: Sequence[MeasuredStep], platform: Platform, *, variant: Variant = HEAD) -> PppCalibration:
    """Find the PPP for compute with the least squares of log(predicted / measured).

    Raises FitError for no points, a point of several workers, or a step shorter than its update alone, which Paleo
    charges at full peak regardless of PPP.
    """
    if not points:
        raise FitError("a PPP needs at least one measured step of one worker, got none")
    if several := [point.workers for point in points if point.workers != 1]:
        raise FitError(f"a PPP is fitted to steps of one worker, got a step of {several[0]}")
    steps = [partial(_step_ms, point, platform, variant) for point in points]
    exact = [_exact(point, step) for point, step in zip(points, steps, strict=True)]

    def squares(x: float) -> float:
        return sum(log(step(x) / point.step_ms) ** 2 for step, point in zip(steps, points, strict=True))

    common = _least(squares, min(exact), max(exact))
    degrees = len(points) - 1
    low = high = None
    if degrees:
        slopes = sum((log(step(common + 1e-4) / step(common - 1e-4)) / 2e-4) ** 2 for step in steps)
        half = student_quantile(degrees, LEVEL) * sqrt(squares(common) / degrees / slopes)
        low, high = exp(common - half), exp(common + half)
    return PppCalibration(
        Parameter("ppp_comp", exp(common), low, high, "", "" if degrees else EXACT),
        tuple(CalibratedPoint(p, step(common), exp(x)) for p, step, x in zip(points, steps, exact, strict=True)),
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


def _least(squares: Callable[[float], float], low: float, high: float) -> float:
    """Log of the PPP with the least squares; it lies within the range of the exact ones."""
    from scipy.optimize import minimize_scalar

    if high - low < 1e-12:
        return low
    return float(minimize_scalar(squares, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x)


COLUMNS = ("batch", "step_ms", "workers")


def read_measured(file: Path, network: Network) -> list[MeasuredStep]:
    """Every row of a file as a step of ``network``; ``batch`` is each worker's.

    Raises FitError with the file and the line where it cannot be read, or a column or a value is wrong.
    """
    try:
        lines = read_regular(file).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FitError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    rows = csv.DictReader(lines)
    names = rows.fieldnames or []
    wrong = [name for name in names if name not in COLUMNS] or [name for name in COLUMNS[:2] if name not in names]
    if wrong:
        raise FitError(f"{file}: column {wrong[0]!r}: expected columns batch, step_ms and optionally workers")
    return [_step(row, f"{file}:{number}", network) for number, row in enumerate(rows, start=2)]


def _step(row: dict[str, str], where: str, network: Network) -> MeasuredStep:
    try:
        if any(name not in COLUMNS for name in row):  # more values than the header has columns
            raise ValueError
        workers = int(row.get("workers") or 1)
        return MeasuredStep(network, int(row["batch"]), float(row["step_ms"]), workers)
    except FitError as error:
        raise FitError(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise FitError(
            f"{where}: expected an integer batch and milliseconds, got {', '.join(map(str, row.values()))}"
        ) from error
