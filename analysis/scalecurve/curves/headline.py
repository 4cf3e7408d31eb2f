"""A curve in words: a headline for its largest point, and notes on anything that may mislead."""

from collections.abc import Sequence

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.curves.results import PointResult
from scalecurve.curves.scope import scope, spelled_sessions
from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.kinds import two_kinds
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count, listed, plural

_ALONE = " (single repetition: run-to-run variation unknown)"


def headline(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
    """One sentence about the largest measured point, and what is missing beyond it."""
    return _of_largest(series, points, level) + _beyond(points)


def _beyond(points: Sequence[PointResult]) -> str:
    """Larger counts that ended without a valid trial: the curve does not stop there by choice."""
    largest = max((p.workers for p in points if p.measured), default=None)
    if largest is None:
        return ""
    ended = [p for p in points if p.workers > largest and not p.counts.unfinished and not p.counts.succeeded]
    lost = [p.workers for p in ended if not p.counts.full]
    full = [p.workers for p in ended if p.counts.full]
    return (f"; no valid trials at {listed(lost, 'worker')}" if lost else "") + (
        f"; out of memory at {listed(full, 'worker')}" if full else ""
    )


def _of_largest(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
    name = series.name
    largest = max((p for p in points if p.measured), key=lambda p: p.workers, default=None)
    if largest is None or largest.throughput is None:
        waits = any(p.counts.unfinished for p in points)
        return f"{name}: nothing measured yet" if waits else f"{name}: nothing measured"
    unit = f"{series.sample_unit}/s"
    if largest.speedup is None or largest.efficiency is None:
        return (
            f"{name}: {formatting.number(largest.throughput.value)} {unit} on {count(largest.workers, 'worker')}, "
            f"{scope(series)}; no speed-up: the baseline of {count(series.baseline, 'worker')} was not measured"
        )
    if largest.workers == series.baseline:
        rate = f"{formatting.interval(largest.throughput)} {unit} on {count(largest.workers, 'worker')}"
        return f"{name}: {rate}, {scope(series)}{_ALONE if largest.throughput.repetitions == 1 else ''}"
    gives, low_high = formatting.parted(largest.speedup, as_percent=False)
    kind = "within the run only" if largest.speedup.within_run_only else f"{level * 100:g} % interval"
    interval = f" ({kind} {low_high}, {scope(series)})" if low_high else f" ({scope(series)})"
    baseline = "" if series.baseline == 1 else f" over {series.baseline}"
    low, high = largest.speedup.low, largest.speedup.high
    why = "; inconclusive: the interval includes both no speed-up and ideal speed-up"
    if low is None or high is None or low > 1 or high < largest.workers / series.baseline:
        why = _why(largest, largest.efficiency, _batch(points, series.baseline))
    return (
        f"{name}: {gives}× speed-up on {count(largest.workers, 'worker')}{baseline}{interval}, efficiency "
        f"{formatting.percent(largest.efficiency.value)}{_ALONE if largest.speedup.repetitions == 1 else ''}{why}"
    )


def _batch(points: Sequence[PointResult], workers: int) -> float | None:
    batch = next((p.effective_batch for p in points if p.workers == workers and p.effective_batch), None)
    return batch / workers if batch else None


def _why(point: PointResult, efficiency: Estimate, before: float | None) -> str:
    """The loss beyond noise: what compute alone would keep, and the share of a step that communication takes."""
    if efficiency.high is None or efficiency.high >= 1:
        return ""
    why = ""
    if point.computing is not None:
        why = f"; compute alone would keep {formatting.interval(point.computing, as_percent=True)}"
        now = _batch([point], point.workers)
        if now is not None and before is not None and now < before:
            why += f" at {formatting.number(now)} per worker instead of {formatting.number(before)}"
    if point.exposed_share is not None:
        share = formatting.interval(point.exposed_share, as_percent=True)
        why += f"; exposed communication takes {share} of a step"
    return why


def notes(series: MeasuredSeries, points: Sequence[PointResult]) -> list[str]:
    """Whatever may mislead a reader of this curve, one sentence each."""
    sentences = []
    measured = [p for p in points if p.measured]
    timed = [p for p in series.points if p.timed]
    if measured and all(p.efficiency is None for p in measured):
        sentences.append(
            f"{series.name}: the baseline, {count(series.baseline, 'worker')}, has no Succeeded trial: speed-up and "
            "efficiency are omitted rather than measured against another point"
        )
    sentences += [
        _superlinear(series.name, p, p.efficiency) for p in measured if p.efficiency and p.efficiency.value > 1
    ]
    alone = [p.workers for p in measured if p.throughput and p.throughput.repetitions == 1]
    if alone:
        sentences.append(
            f"{series.name}: single repetition at {listed(alone, 'worker')}: its interval shows how stable that run "
            "was, not how much runs differ"
        )
    sentences += [
        f"{series.name}: {kinds.slow} of {count(kinds.repetitions, 'repetition')} at "
        f"{count(timed[kinds.point].point.workers, 'worker')}{spelled_sessions([kinds.session])} "
        f"{plural(kinds.slow, 'is', 'are')} {formatting.percent(kinds.excess)} slower than the others: intervals "
        "are wide for it; find the cause, or repeat more often"
        for kinds in two_kinds([p.samples for p in timed])
    ]
    return sentences


def _superlinear(name: str, point: PointResult, value: Estimate) -> str:
    text = f"{name}: efficiency above 1 at {count(point.workers, 'worker')} ({formatting.percent(value.value)})"
    if value.low is None or value.low <= 1:
        return f"{text} is within the noise of 1"
    why = (
        "a smaller batch per worker may fit caches and memory better"
        if point.point.mode is Mode.strong
        else "the baseline may have been slowed (clocks, other load, cold start)"
    )
    return f"{text} is beyond noise: {why}; compare the points' clocks and environment before trusting it"
