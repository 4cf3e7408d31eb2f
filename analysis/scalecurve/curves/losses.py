"""Where the time of a step goes along a curve: the efficiency that is kept, and what takes the rest.

Shares of a step at N workers add up to 1: E + exposed communication + additional wait for data + slower computing, for
1 - E is the share of the step that an ideal curve would not spend. Where computing is faster than at the baseline its
share is negative. Where all trials of both points timed the sections of their steps, these are the terms.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalecurve.curves import anatomy
from scalecurve.curves.results import PointResult, SeriesResult
from scalecurve.curves.terms import ParallelEfficiency, causes, parallel_efficiency
from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate

KEPT, COMMUNICATION, INPUT, COMPUTE, UNKNOWN = "kept", anatomy.EXCHANGE, anatomy.INPUT, anatomy.COMPUTE, anatomy.REST
LABELS = {
    COMMUNICATION: "communication that is waited for",
    anatomy.SERVER: "waiting for parameter servers",
    anatomy.IMBALANCE: "waiting for slower workers",
    INPUT: "more waiting for data",
    anatomy.TRANSFER: "copies to and from the device",
    anatomy.OPTIMIZER: "optimizer's update",
    anatomy.HOST: "the host's own work between the passes",
    UNKNOWN: "not explained",
}


@dataclass(frozen=True)
class Term:
    """One part of the bar: its ``share`` of a step, and the estimate that it was measured by, if it was."""

    kind: str
    label: str
    share: float
    measured: Estimate | None = None

    @property
    def interval(self) -> str:
        return formatting.parted(self.measured, as_percent=True)[1] if self.measured else ""


@dataclass(frozen=True)
class StepShares:
    """The bar of one point; ``against`` is the baseline, None where there is only one count.

    ``sectioned`` says that the terms are of sections of the step; ``pop`` has POP's factors where they are known.
    """

    series: str
    workers: int
    against: int | None
    terms: tuple[Term, ...]
    pop: ParallelEfficiency | None = None
    sectioned: bool = False

    @property
    def largest(self) -> Term | None:
        """What takes most, beside what is kept; None where nothing is lost."""
        lost = [term for term in self.terms if term.kind != KEPT and term.share > 0]
        return max(lost, key=lambda term: term.share, default=None)

    def spelled(self) -> str:
        """The terms in words, as for a reader who does not see the bar."""
        return ", ".join(f"{term.label} {formatting.percent(term.share)}" for term in self.terms)


def losses(series: SeriesResult) -> StepShares | None:
    """Of the largest count; None where no point counts, or the largest is faster than ideal."""
    points = [point for point in series.measured if not point.doubts]
    return _losses(series, points, max(points, key=lambda point: point.workers)) if points else None


def losses_along(series: SeriesResult) -> tuple[StepShares, ...]:
    """Of every count beyond the baseline that is slower than ideal."""
    points = [point for point in series.measured if not point.doubts]
    bars = (_losses(series, points, point) for point in points if point.workers != series.baseline)
    return tuple(bar for bar in bars if bar and bar.against is not None)


def _losses(series: SeriesResult, points: Sequence[PointResult], point: PointResult) -> StepShares | None:
    base = next((point for point in points if point.workers == series.baseline), None)
    if point.workers == series.baseline or point.efficiency is None or base is None:
        return StepShares(series.name, point.workers, None, tuple(_of_a_step(point)))
    if point.efficiency.value >= 1:
        return None
    sectioned = bool(point.anatomies and base.anatomies)
    pop = parallel_efficiency(point.anatomies, base.anatomies, point.efficiency.value) if sectioned else None
    terms = tuple(_against(point, point.efficiency, base))
    return StepShares(series.name, point.workers, series.baseline, terms, pop, sectioned)


def _against(last: PointResult, efficiency: Estimate, base: PointResult) -> Iterator[Term]:
    yield Term(KEPT, "efficiency", efficiency.value, efficiency)
    if last.anatomies and base.anatomies:
        for cause in causes(last.anatomies, base.anatomies, efficiency):
            share = cause.share.value
            label = _computing(last, base, share) if cause.name == COMPUTE else LABELS[cause.name]
            yield Term(cause.name, label, share, cause.share)
        return
    waits, exposed = _input(last, base), last.exposed_share
    rest = 1 - efficiency.value - waits - (exposed.value if exposed else 0.0)
    if exposed:
        yield Term(COMMUNICATION, "communication that is waited for", exposed.value, exposed)
    if waits:
        yield Term(INPUT, "more waiting for data", waits)
    if exposed:
        yield Term(COMPUTE, _computing(last, base, rest) if rest >= 0 else "remainder", rest)
    else:
        yield Term(UNKNOWN, "not attributed", rest)


def _of_a_step(point: PointResult) -> Iterator[Term]:
    """Of one count alone: nothing is lost against another, but a step has its parts."""
    waits = point.loader_s / point.step_s.value if point.loader_s and point.step_s else 0.0
    talks = max(0.0, point.exposed_share.value) if point.exposed_share else 0.0
    rest = "computing" if point.exposed_share or point.workers == 1 else "computing and communication"
    yield Term(KEPT, rest, max(0.0, 1 - waits - talks))
    if point.exposed_share:
        yield Term(COMMUNICATION, "communication that is waited for", talks, point.exposed_share)
    if waits:
        yield Term(INPUT, "waiting for data", waits)


def _input(last: PointResult, base: PointResult) -> float:
    """The wait for data beyond that of the baseline's samples, as a share of a step at the larger count."""
    if last.loader_s is None or base.loader_s is None or last.step_s is None:
        return 0.0
    batches = [point.effective_batch / point.workers for point in (last, base) if point.effective_batch]
    ratio = batches[0] / batches[1] if len(batches) == 2 else 1.0
    return max(0.0, last.loader_s - base.loader_s * ratio) / last.step_s.value


def _computing(last: PointResult, base: PointResult, lost: float) -> str:
    word = "slower computing" if lost >= 0 else "faster computing"
    batches = [point.effective_batch / point.workers for point in (base, last) if point.effective_batch]
    if len(batches) == 2 and batches[1] < batches[0] * 0.999:
        before, now = map(formatting.number, batches)
        return f"{word}, at {now} per worker instead of {before}"
    return word
