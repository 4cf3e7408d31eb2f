"""A curve in words: a headline for its largest point, and notes on anything that may mislead."""

from collections.abc import Sequence

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.curves.results import PointResult
from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count

_ALONE = " (single repetition: run-to-run variation unknown)"


def headline(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
    """One sentence about the largest measured point, and what is missing beyond it."""
    return _of_largest(series, points, level) + _beyond(points)


def _beyond(points: Sequence[PointResult]) -> str:
    """Larger counts that ended without a valid trial: the curve does not stop there by choice."""
    largest = max((p.workers for p in points if p.measured), default=None)
    if largest is None:
        return ""
    lost = [p.workers for p in points if p.workers > largest and not p.counts.unfinished]
    return f"; no valid trials at {_list(lost)} workers" if lost else ""


def _of_largest(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
    name = series.name
    largest = max((p for p in points if p.measured), key=lambda p: p.workers, default=None)
    if largest is None or largest.throughput is None:
        waits = any(p.counts.unfinished for p in points)
        return f"{name}: nothing measured yet" if waits else f"{name}: nothing measured"
    unit = f"{series.sample_unit}/s"
    if largest.speedup is None or largest.efficiency is None:
        return (
            f"{name}: {formatting.number(largest.throughput.value)} {unit} on {count(largest.workers, 'worker')}; "
            f"no speed-up: the baseline of {count(series.baseline, 'worker')} was not measured"
        )
    if largest.workers == series.baseline:
        rate = f"{formatting.interval(largest.throughput)} {unit} on {count(largest.workers, 'worker')}"
        return f"{name}: {rate}{_ALONE if largest.throughput.repetitions == 1 else ''}"
    gives, low_high = formatting.parted(largest.speedup, as_percent=False)
    kind = "within the run only" if largest.speedup.within_run_only else f"{level * 100:g} % interval"
    interval = f" ({kind} {low_high})" if low_high else ""
    baseline = "" if series.baseline == 1 else f" over {series.baseline}"
    return (
        f"{name}: {gives}× speed-up on {count(largest.workers, 'worker')}{baseline}{interval}, "
        f"efficiency {formatting.percent(largest.efficiency.value)}"
        + (_ALONE if largest.speedup.repetitions == 1 else "")
        + (
            _undecided(largest.speedup, largest.workers / series.baseline)
            or _why(largest, largest.efficiency, _batch(points, series.baseline))
        )
    )


def _undecided(speedup: Estimate, ideal: float) -> str:
    if speedup.low is None or speedup.high is None or speedup.low > 1 or speedup.high < ideal:
        return ""
    return "; inconclusive: the interval includes both no speed-up and ideal speed-up"


def _batch(points: Sequence[PointResult], workers: int) -> float | None:
    """Samples per worker and step of a measured point."""
    batch = next((p.effective_batch for p in points if p.workers == workers and p.effective_batch), None)
    return batch / workers if batch else None


def _why(point: PointResult, efficiency: Estimate, before: float | None) -> str:
    """The loss beyond noise in its two factors: compute, and communication that does not overlap with it."""
    computing = point.computing
    if computing is None or efficiency.high is None or efficiency.high >= 1:
        return ""
    now = _batch([point], point.workers)
    batch = ""
    if now is not None and before is not None and now < before:
        batch = f" ({formatting.number(now)} per worker instead of {formatting.number(before)})"
    return (
        f"; compute alone would keep {formatting.percent(computing.value)}{batch}, "
        f"communication leaves {formatting.percent(efficiency.value / computing.value)} of that"
    )


def notes(series: MeasuredSeries, points: Sequence[PointResult]) -> list[str]:
    """Whatever may mislead a reader of this curve, one sentence each."""
    sentences = []
    measured = [p for p in points if p.measured]
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
            f"{series.name}: single repetition at {_list(alone)} workers: its interval shows how stable that run "
            "was, not how much runs differ"
        )
    for p in measured:
        planned, real = p.point.global_batch, p.effective_batch
        if series.sample_unit == "samples" and planned and real and abs(real / planned - 1) > 1e-3:
            used = f"{count(p.workers, 'worker')} used {formatting.number(real)} samples per step"
            sentences.append(f"{series.name}: {used} instead of the planned {planned}")
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


def _list(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))
