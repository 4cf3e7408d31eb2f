"""A curve in words: a headline for its largest point, and notes on anything that may mislead."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries
from scalecurve.curves.results import PointResult
from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.kinds import two_kinds
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count, listed, plural

IDLE = 0.1
"""Of the time: less tells of how NVML and the kernel sample, more changes a speed-up by as much"""
_ALONE = " (single repetition: run-to-run variation unknown)"


def headline(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
    """One sentence about the largest measured point, and what is missing beyond it."""
    return _describe_largest(series, points, level) + _describe_larger_counts(points)


def _describe_larger_counts(points: Sequence[PointResult]) -> str:
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


def _describe_largest(series: MeasuredSeries, points: Sequence[PointResult], level: float) -> str:
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
    kind = "within the run only" if largest.speedup.within_run_only else f"{formatting.stated_percent(level)} interval"
    interval = f" ({kind} {low_high}, {scope(series)})" if low_high else f" ({scope(series)})"
    baseline = "" if series.baseline == 1 else f" over {series.baseline}"
    why = _why(largest, largest.efficiency, _batch(points, series.baseline))
    alone = _ALONE if largest.speedup.repetitions == 1 else ""
    return (
        f"{name}: {gives}× speed-up on {count(largest.workers, 'worker')}{baseline}{interval}, efficiency "
        f"{formatting.interval(largest.efficiency, as_percent=True)}{alone}{why}"
    )


def _batch(points: Sequence[PointResult], workers: int) -> float | None:
    batch = next((p.effective_batch for p in points if p.workers == workers and p.effective_batch), None)
    return batch / workers if batch else None


def _why(point: PointResult, efficiency: Estimate, before: float | None) -> str:
    """The loss beyond noise: what compute alone would keep, and the share of a step that communication takes."""
    if efficiency.ends is None or efficiency.ends[1] >= 1:
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
    sentences += explain_above_one(series.name, points)
    sentences += idle_baseline(series)
    alone = [p.workers for p in measured if p.throughput and p.throughput.repetitions == 1]
    if alone:
        sentences.append(
            f"{series.name}: single repetition at {listed(alone, 'worker')}: its interval shows how stable that run "
            "was, not how much runs differ"
        )
    sentences += [
        f"{series.name}: {kinds.slow} of {count(kinds.repetitions, 'repetition')} at "
        f"{count(timed[kinds.point].point.workers, 'worker')}{spell_sessions([kinds.session])} "
        f"{plural(kinds.slow, 'is', 'are')} {formatting.percent(kinds.excess)} slower than the others: intervals "
        "are wide for it; find the cause, or repeat more often"
        for kinds in two_kinds([p.samples for p in timed])
    ]
    return sentences


def explain_above_one(name: str, points: Sequence[PointResult]) -> list[str]:
    """What to make of every point that is faster than ideal, however wide its interval."""
    return [
        _superlinear(name, p, p.efficiency) for p in points if p.measured and p.efficiency and p.efficiency.value > 1
    ]


def _superlinear(name: str, point: PointResult, value: Estimate) -> str:
    text = f"{name}: efficiency above 1 at {count(point.workers, 'worker')} ({formatting.percent(value.value)})"
    if value.low is None:
        return f"{text} may be noise: its interval is not known"
    if value.low <= 1:
        return f"{text} is within the noise of 1"
    why = (
        "a smaller batch per worker may fit caches and memory better"
        if point.point.mode is Mode.strong
        else "the baseline may have been slowed (clocks, other load, cold start)"
    )
    return f"{text} is beyond noise: {why}; compare the points' clocks and environment before trusting it"


def idle_baseline(series: MeasuredSeries) -> list[str]:
    """That the baseline's devices, or its cores where it has no GPU, waited more than those of a larger count did."""
    used = {p.point.workers: shares for p in series.points if (shares := _device_utilization(p))}
    base = used.pop(series.baseline, None)
    busier = {workers: shares for workers, shares in used.items() if base and min(shares) > max(base) + IDLE}
    if not base or not busier:
        return []
    workers, shares = max(busier.items(), key=lambda each: fmean(each[1]))
    at = f"{formatting.percent(fmean(base), 0)} of the time at {count(series.baseline, 'worker')}"
    return [
        f"{series.name}: devices were busy {at}, {formatting.percent(fmean(shares), 0)} at {count(workers, 'worker')}: "
        "the baseline waits, and speed-ups over it are too high; find what it waits for (explain, traces)"
    ]


def _device_utilization(measured: MeasuredPoint) -> list[float]:
    """The share of the time in which each device was busy, by NVML; of the cores, where no rank has a GPU."""
    samples = [sample for record in measured.timed for sample in record.device_samples if sample is not None]
    gpus = [sample.utilization_mean for sample in samples if sample.utilization_mean is not None]
    cores = [share for record in measured.timed for share in record.own_load if share is not None]
    return gpus if samples else cores


def scope(series: MeasuredSeries) -> str:
    """``within one session on one machine``, or ``over 3 sessions on 3 machines``."""
    records = [record for point in series.points for record in point.timed]
    if records and all(record.imported for record in records):
        return "as its source states"
    sessions = len({record.trial.session for record in records})
    machines = count_machines(records)
    where = "one machine" if machines == 1 else f"{machines} machines"
    return f"within one session on {where}" if sessions <= 1 else f"over {count(sessions, 'session')} on {where}"


def count_machines(records: Iterable[TrialRecord]) -> int:
    """Hosts by name; machines of different sessions may share a name and are then told apart by their devices."""
    by_session: dict[tuple[int, str], set[str]] = {}
    for record in records:
        for rank in record.topology:
            devices = by_session.setdefault((record.trial.session, rank.node or rank.host), set())
            devices.update([rank.device] if rank.device and rank.device.startswith("GPU-") else [])
    machines: list[tuple[str, set[str]]] = []
    for (_, host), devices in by_session.items():
        same = next((known for name, known in machines if name == host and _may_be_one(known, devices)), None)
        if same is None:
            machines.append((host, devices))
        else:
            same |= devices
    return max(1, len(machines))


def _may_be_one(first: set[str], second: set[str]) -> bool:
    return not first or not second or bool(first & second)


def spell_sessions(sessions: Sequence[int]) -> str:
    """``session 2``; empty where there is only the first."""
    return "" if set(sessions) == {0} else " in session " + ", ".join(str(session + 1) for session in sessions)
