"""Where the time of a step goes along a curve: the efficiency that is kept, and what takes the rest.

Shares of a step at N workers add up to 1: E + exposed communication + additional wait for data + slower computing, for
1 - E is the share of the step that an ideal curve would not spend. Where all trials of both points timed the sections
of their steps, these are the terms. No share is negative: one that is within its noise joins the largest, and one that
is beyond it refuses the split, for the numbers then contradict each other.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scalecurve.curves import anatomy
from scalecurve.curves.results import PointResult, SeriesResult
from scalecurve.curves.terms import ParallelEfficiency, causes, parallel_efficiency
from scalecurve.render import formatting
from scalecurve.statistics.estimate import LEAST_SHARE, Estimate

KEPT, COMMUNICATION, INPUT, COMPUTE, UNKNOWN = "kept", anatomy.EXCHANGE, anatomy.INPUT, anatomy.COMPUTE, anatomy.REST
_SHOWN = 5e-4  # what is less is 0.0 %
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
    """One part of the bar: its ``share`` of a step, and the estimate that it was measured by, if it was.

    ``noise`` is the half width of a share that follows from others.
    """

    kind: str
    label: str
    share: float
    measured: Estimate | None = None
    noise: float = 0.0

    @property
    def negative(self) -> bool:
        """Whether it is, beyond its noise."""
        noise = (self.measured.half_width if self.measured else None) or self.noise
        return self.share < -max(LEAST_SHARE, noise)

    @property
    def interval(self) -> str:
        return formatting.label_interval(formatting.parted(self.measured, as_percent=True)[1]) if self.measured else ""


@dataclass(frozen=True)
class StepShares:
    """The bar of one point; ``against`` is the baseline, None where there is only one count.

    ``sectioned`` says that the terms are of sections of the step; ``pop`` has POP's factors where they are known.
    ``refused`` is why what is lost is not split; the terms are then what is kept, and all else.
    """

    series: str
    workers: int
    against: int | None
    terms: tuple[Term, ...]
    pop: ParallelEfficiency | None = None
    sectioned: bool = False
    refused: str = ""

    @property
    def largest(self) -> Term | None:
        """What takes most, beside what is kept; None where nothing is lost, or it is not split."""
        lost = [term for term in self.terms if term.kind != KEPT and term.share > 0 and not self.refused]
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
        return StepShares(series.name, point.workers, None, tuple(_split_step(point)), refused=point.split_refused)
    if point.efficiency.value >= 1:
        return None
    sectioned = bool(point.anatomies and base.anatomies)
    pop = parallel_efficiency(point.anatomies, base.anatomies, point.efficiency.value) if sectioned else None
    kept, lost = Term(KEPT, "efficiency", point.efficiency.value, point.efficiency), 1 - point.efficiency.value
    terms = list((_split_by_sections if sectioned else _split_by_windows)(point, point.efficiency, base))
    if refused := ("" if sectioned else point.split_refused) or _contradiction(terms, lost):
        terms = [Term(UNKNOWN, "not split", lost)]
    shares = (kept, *_join_negative(terms))
    return StepShares(series.name, point.workers, series.baseline, shares, pop, sectioned, refused)


def _split_by_sections(last: PointResult, efficiency: Estimate, base: PointResult) -> Iterator[Term]:
    for cause in causes(last.anatomies, base.anatomies, efficiency):
        share = cause.share.value
        label = _spell_computing(last, base, share) if cause.name == COMPUTE else LABELS[cause.name]
        yield Term(cause.name, label, share, cause.share)


def _split_by_windows(last: PointResult, efficiency: Estimate, base: PointResult) -> Iterator[Term]:
    waits, exposed = _input(last, base), last.exposed_share
    rest = 1 - efficiency.value - waits - (exposed.value if exposed else 0.0)
    if exposed:
        yield Term(COMMUNICATION, "communication that is waited for", exposed.value, exposed)
    if waits:
        yield Term(INPUT, "more waiting for data", waits)
    if exposed:
        noise = sum(estimate.half_width or 0.0 for estimate in (efficiency, exposed))
        yield Term(COMPUTE, _spell_computing(last, base, rest), rest, noise=noise)
    else:
        yield Term(UNKNOWN, "cause not measured", rest)


def _contradiction(terms: Sequence[Term], lost: float) -> str:
    """The two terms that cannot both be right; empty if all can."""
    least, most = (of(terms, key=lambda term: term.share) for of in (min, max))
    if not least.negative:
        return ""
    return (
        f"{most.label} would be {formatting.percent(most.share)} of a step, of which {formatting.percent(lost)} "
        f"is lost: {least.label} {formatting.percent(least.share)}"
    )


def _join_negative(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms, those that are negative within their noise joined to the largest."""
    terms = [replace(term, share=max(0.0, term.share)) if term.share > -_SHOWN else term for term in terms]
    below = [term for term in terms if term.share < 0]
    if not below:
        return tuple(terms)
    most = max(terms, key=lambda term: term.share)
    label = ", less ".join([most.label, *(term.label for term in below)])
    joined = Term(most.kind, label, math.fsum(term.share for term in (most, *below)))
    return tuple(joined if term is most else term for term in terms if term not in below)


def _split_step(point: PointResult) -> Iterator[Term]:
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


def _spell_computing(last: PointResult, base: PointResult, lost: float) -> str:
    word = "slower computing" if lost >= 0 else "faster computing"
    batches = [point.effective_batch / point.workers for point in (base, last) if point.effective_batch]
    if len(batches) == 2 and batches[1] < batches[0] * 0.999:
        before, now = map(formatting.number, batches)
        return f"{word}, at {now} per worker instead of {before}"
    return word
