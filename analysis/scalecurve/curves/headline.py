"""A curve in words: the headline of its largest point, and notes on what a reader may stumble over."""

from __future__ import annotations

from collections.abc import Sequence

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.curves.results import PointResult
from scalecurve.render import formatting as spelling
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.scaling import Mode

_ALONE = ", by one repetition: how another would differ is not known"


def headline(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
    """One sentence about the largest measured point, and what is missing beyond it."""
    return _of_largest(series, points, level) + _beyond(points)


def _beyond(points: Sequence[PointResult]) -> str:
    """Larger counts that ended without one good trial: the curve does not stop there by choice."""
    largest = max((p.workers for p in points if p.measured), default=None)
    if largest is None:
        return ""
    lost = [p.workers for p in points if p.workers > largest and not p.counts.unfinished]
    return f"; no trial on {_list(lost)} workers counts" if lost else ""


def _of_largest(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
    name = series.name
    largest = max((p for p in points if p.measured), key=lambda p: p.workers, default=None)
    if largest is None or largest.throughput is None:
        waits = any(p.counts.unfinished for p in points)
        return f"{name}: nothing measured yet" if waits else f"{name}: nothing was measured"
    unit = f"{series.sample_unit}/s"
    if largest.speedup is None or largest.efficiency is None:
        return (
            f"{name}: {spelling.number(largest.throughput.value)} {unit} on {_workers(largest.workers)}; "
            f"no speed-up, for the baseline of {_workers(series.baseline)} was not measured"
        )
    if largest.workers == series.baseline:
        rate = f"{spelling.interval(largest.throughput)} {unit} on {_workers(largest.workers)}"
        return f"{name}: {rate}{_ALONE if largest.throughput.repetitions == 1 else ''}"
    gives, low_high = spelling.parted(largest.speedup, as_percent=False)
    kind = "within the run only" if largest.speedup.within_run_only else f"{level * 100:g} % interval"
    said = f" ({kind} {low_high})" if low_high else ""
    against = "" if series.baseline == 1 else f" that of {series.baseline}"
    return (
        f"{name}: {_workers(largest.workers)} give {gives}×{against}{said}, "
        f"efficiency {spelling.percent(largest.efficiency.value)}"
        + (_ALONE if largest.speedup.repetitions == 1 else "")
        + (
            _undecided(largest.speedup, largest.workers / series.baseline)
            or _why(largest, largest.efficiency, _batch(points, series.baseline))
        )
    )


def _undecided(speedup: Estimate, ideal: float) -> str:
    """A warning where the interval leaves everything open that one asks a speed-up for."""
    if speedup.low is None or speedup.high is None or speedup.low > 1 or speedup.high < ideal:
        return ""
    return "; inconclusive: the interval includes both no speed-up and ideal speed-up"


def _batch(points: Sequence[PointResult], workers: int) -> float | None:
    """Samples a worker of a point that was measured."""
    found = next((p for p in points if p.workers == workers and p.effective_batch), None)
    return found.effective_batch / workers if found and found.effective_batch else None


def _why(point: PointResult, efficiency: Estimate, before: float | None) -> str:
    """What is lost beyond noise, in its two factors: computing, and the communication that is not hidden behind it."""
    computing = point.computing
    if computing is None or efficiency.high is None or efficiency.high >= 1:
        return ""
    now = _batch([point], point.workers)
    batch = ""
    if now is not None and before is not None and now < before:
        batch = f" ({spelling.number(now)} a worker in place of {spelling.number(before)})"
    return (
        f"; computing alone would keep {spelling.percent(computing.value)}{batch}, "
        f"communication leaves {spelling.percent(efficiency.value / computing.value)} of that"
    )


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def notes(series: MeasuredSeries, points: Sequence[PointResult]) -> list[str]:
    """What a reader of this curve may stumble over, a sentence each."""
    said = []
    measured = [p for p in points if p.measured]
    if measured and all(p.efficiency is None for p in measured):
        said.append(
            f"{series.name}: the baseline, {_workers(series.baseline)}, has no Succeeded trial: speed-up and "
            "efficiency are left out rather than measured against another point"
        )
    said += [_superlinear(series.name, p, p.efficiency) for p in measured if p.efficiency and p.efficiency.value > 1]
    alone = [p.workers for p in measured if p.throughput and p.throughput.repetitions == 1]
    if alone:
        said.append(
            f"{series.name}: one repetition only at {_list(alone)} workers: the interval there shows how steady that "
            "run was and says nothing of how another run would differ"
        )
    for p in measured:
        planned, real = p.point.global_batch, p.effective_batch
        if series.sample_unit == "samples" and planned and real and abs(real / planned - 1) > 1e-3:
            used = f"{_workers(p.workers)} used {spelling.number(real)} samples a step"
            said.append(f"{series.name}: {used}, planned were {planned}")
    return said


def _superlinear(name: str, point: PointResult, value: Estimate) -> str:
    text = f"{name}: efficiency above 1 at {_workers(point.workers)} ({spelling.percent(value.value)})"
    if value.low is None or value.low <= 1:
        return f"{text} is within the noise of 1"
    why = (
        "a smaller batch for each worker may fit caches and memory better"
        if point.point.mode is Mode.strong
        else "the baseline may have been slowed (clocks, other load, cold start)"
    )
    return f"{text} is beyond noise: {why}; compare the points' clocks and environment before believing it"


def _list(counts: Sequence[int]) -> str:
    return ", ".join(str(count) for count in counts)
