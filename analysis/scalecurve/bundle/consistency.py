"""A record held against itself, its step table, and the other records of its bundle.

A digest proves that a record is unchanged since it was sealed, and whoever changes one seals it anew. So everything
that is told twice is compared: verdict and evidence, windows and summary, windows and steps, windows and timeline,
trials and the devices that they ran on. Tolerances are well beyond what honest records show.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean

from scalecurve.bundle.problem import FileError
from scalecurve.bundle.steps import WindowSums, window_sums
from scalecurve.bundle.trial import Trial
from scalecurve_api.model import canonical_json
from scalecurve_api.record.checks.training import LEAST_FILLED
from scalecurve_api.record.rank import RankTopology, WindowKind
from scalecurve_api.record.rejudge import rejudge
from scalecurve_api.record.tables import STEPS_FILE
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import InvalidReason, TrialPhase
from scalecurve_api.text import count, few

CONTRADICTORY = "Contradictory"
MOST_TABLE_BYTES = 64 << 20
"""Step tables of more than this together are held against their windows by ``verify`` alone."""
_LOCAL_CLOCK_NS, _CLUSTER_CLOCK_NS = 1_000_000_000, 60_000_000_000
_FIXED_TOTAL = (
    "a script that divides a fixed total by itself is measured by strong scaling: --modes strong, and --batch with "
    "what each of the most workers gets"
)
_SHARE, _LITTLE_NS, _MUCH_NS = 0.02, 200_000, 20_000_000


@dataclass(frozen=True)
class Judged:
    """The trials as they count, those contradicted as Invalid; why, a line for each; and tables that are no use."""

    trials: tuple[Trial, ...]
    contradictions: tuple[str, ...]
    unusable: tuple[tuple[Trial, str], ...]


def judge_again(trials: Sequence[Trial], tables: bool) -> Judged:
    """Hold every Succeeded trial against itself and the others; with ``tables``, against its steps as well."""
    shared: dict[str, str] = {}
    for name, why in _find_overlaps(trials):
        shared.setdefault(name, why)
    other_batches = dict(_other_batches(trials))
    results: list[Trial] = []
    lines: list[str] = []
    unusable: list[tuple[Trial, str]] = []
    for trial in trials:
        record = trial.record
        if record is not None and trial.good:
            reason, message = _verdict(record, shared.get(trial.name), other_batches.get(trial.name))
            if reason is None and tables and STEPS_FILE in record.files:
                try:
                    message = _steps(record, window_sums(trial)) or ""
                except FileError as error:
                    unusable.append((trial, str(error)))
            if message:
                update = {"phase": TrialPhase.invalid, "reason": reason or CONTRADICTORY, "message": message}
                trial = replace(trial, record=record.model_copy(update=update))
                lines.append(f"{trial.name}: {message}")
        results.append(trial)
    return Judged(tuple(results), tuple(lines), tuple(unusable))


def _verdict(record: TrialRecord, shared: str | None, other_batch: str | None) -> tuple[str | None, str]:
    if (broken := rejudge(record)) is not None:
        return broken.name, f"stored as Succeeded, but {broken.name} was not passed: {broken.detail}"
    if other_batch is not None:
        return InvalidReason.wrong_samples.value, other_batch
    problem = shared or _summary(record) or _timeline(record)
    return (CONTRADICTORY, problem) if problem else (None, "")


def _summary(record: TrialRecord) -> str | None:
    """The summary is worked out from the timed windows, and the step times in it from the steps."""
    train = [window for window in record.windows if window.kind is WindowKind.train]
    summary = record.summary
    if summary is None or not train:
        return None
    wall_s, samples = sum(window.wall_ns for window in train) / 1e9, sum(window.samples for window in train)
    told = (summary.samples, summary.wall_s, summary.throughput)
    if not all(map(_close, told, (samples, wall_s, samples / wall_s if wall_s else 0.0))):
        return (
            f"the summary has {count(summary.samples, 'sample')} in {summary.wall_s:.6g} s "
            f"({summary.throughput:.6g}/s), "
            f"the windows {samples} in {wall_s:.6g} s"
        )
    step = summary.step
    if step is None or not record.trial.workload.takes_batch:
        return None
    if step.count != (steps := sum(window.steps for window in train)):
        return f"the summary has {count(step.count, 'step')}, the windows {steps}"
    # Of each step the slowest rank's time is taken, so their sum is the windows' wall time at least.
    if step.mean * step.count < wall_s * (1 - _SHARE) - _MUCH_NS / 1e9 * len(train):
        spent = f"{step.mean * steps:.6g} s, the windows {wall_s:.6g} s"
        return f"{count(steps, 'step')} of {step.mean:.6g} s each make {spent}"
    return None


def _timeline(record: TrialRecord) -> str | None:
    """Windows follow each other, while the workers ran, after the start and before the end that the engine saw."""
    windows = sorted(record.windows, key=lambda window: window.index)
    for before, after in pairwise(windows):
        if before.start_ns + before.fastest_ns > after.start_ns + _MUCH_NS + _SHARE * before.fastest_ns:
            return f"window {after.index} began before window {before.index} had ended"
    if not windows:
        return None
    clock = _LOCAL_CLOCK_NS if record.engine == "local" else _CLUSTER_CLOCK_NS
    last = windows[-1]
    begin, end = windows[0].start_ns, last.start_ns + last.wall_ns
    for entry in record.timeline:
        if entry.phase in ("worker started", TrialPhase.starting) and begin < entry.at_ns - clock:
            return f"window {windows[0].index} began {(entry.at_ns - begin) / 1e9:.3g} s before {entry.phase!r}"
        if entry.phase in ("worker ended", TrialPhase.collecting) and end > entry.at_ns + clock:
            return f"window {last.index} ended {(end - entry.at_ns) / 1e9:.3g} s after {entry.phase!r}"
    return None


def _steps(record: TrialRecord, sums: Mapping[int, WindowSums]) -> str | None:
    """The steps of a window fill it, and no rank's last longer; their samples are the window's."""
    for window in record.windows:
        told, wall_s = sums.get(window.index, WindowSums()), window.wall_ns / 1e9
        longest_ns = max(told.ranks_ns.values(), default=0)
        at = f"in window {window.index}, trial.json {wall_s:.6g} s"
        if longest_ns > window.wall_ns * (1 + _SHARE) + _LITTLE_NS:
            return f"{STEPS_FILE} has {longest_ns / 1e9:.6g} s of steps {at}"
        fills = told.slowest_ns >= window.wall_ns * (1 - _SHARE) - _MUCH_NS
        if record.trial.workload.takes_batch and not fills:
            return f"{STEPS_FILE} has {told.slowest_ns / 1e9:.6g} s of steps {at}"
        if told.samples != window.samples:
            held = count(told.samples, "sample")
            return f"{STEPS_FILE} has {held} in window {window.index}, trial.json {window.samples}"
    return None


def _find_overlaps(trials: Iterable[Trial]) -> Iterator[tuple[str, str]]:
    """Trials that cannot be two: of one step table, of one process, or at one time on one device."""
    good = [(trial.name, trial.record) for trial in trials if trial.good and trial.record is not None]
    tables = ((record.files.get(STEPS_FILE), name) for name, record in good)
    yield from _alike("has the step table of", tables)
    processes = ((process, name) for name, record in good for process in _processes(record))
    yield from _alike("is of the same process as", processes)
    by_device: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for name, record in good:
        if record.windows:
            begin = min(window.start_ns for window in record.windows)
            end = max(window.start_ns + window.wall_ns for window in record.windows)
            for device in {(r.node or r.host, r.device) for r in record.topology if not _shares_cores(r)}:
                by_device.setdefault(device, []).append((begin, end, name))
    for (host, used), spans in by_device.items():
        for (_, end, name), (begin, _, other) in pairwise(sorted(spans)):
            if begin < end:
                yield from _alike(f"ran on {used} of {host} at the same time as", ((used, name), (used, other)))


def _other_batches(trials: Iterable[Trial]) -> Iterator[tuple[str, str]]:
    """Trials of weak scaling with another batch per worker than the fewest workers', where only the script knows it."""
    by_series: dict[Hashable, list[tuple[int, float, str]]] = {}
    for trial in trials:
        point, record = trial.spec.point, trial.record
        if record is None or not trial.good or point.mode is not Mode.weak or point.batch_per_worker is not None:
            continue
        windows = [window for window in record.windows if window.kind is WindowKind.train]
        samples = sum(window.samples if window.sequences is None else window.sequences for window in windows)
        steps = sum(window.steps for window in windows)
        if record.trial.workload.knows_own_batch and samples and steps:
            a_step = samples / steps / point.workers
            by_series.setdefault(canonical_json(point.axes), []).append((point.workers, a_step, trial.name))
    for counted in by_series.values():
        fewest = min(workers for workers, *_ in counted)
        base = mean(a_step for workers, a_step, _ in counted if workers == fewest)
        for _, a_step, name in counted:
            if not LEAST_FILLED <= a_step / base <= 1 / LEAST_FILLED:
                at = f"{a_step:,.4g} samples a step and worker, {base:,.4g} at {count(fewest, 'worker')}"
                yield name, f"{at}: {_FIXED_TOTAL}"


def runs(trials: Iterable[Trial]) -> frozenset[Hashable]:
    """What identifies the runs behind the Succeeded trials, in whatever bundle and under whatever name they stand."""
    records = [trial.record for trial in trials if trial.good and trial.record is not None]
    contents = (text for record in records for text in (record.digest, record.files.get(STEPS_FILE)) if text)
    return frozenset([*contents, *(process for record in records for process in _processes(record))])


def _processes(record: TrialRecord) -> Iterator[Hashable]:
    started = min((entry.at_ns for entry in record.timeline if entry.phase == "worker started"), default=None)
    return ((rank.host, rank.pid, started) for rank in record.topology if started is not None)


def _alike(relation: str, keyed: Iterable[tuple[Hashable, str]]) -> Iterator[tuple[str, str]]:
    """Every name that shares its key with others, and what it has in common with them."""
    by_key: dict[Hashable, dict[str, None]] = {}
    for key, name in keyed:
        if key is not None:
            by_key.setdefault(key, {})[name] = None
    for names in by_key.values():
        for name in names if len(names) > 1 else ():
            yield name, f"{relation} {few(other for other in names if other != name)}"


def _shares_cores(rank: RankTopology) -> bool:
    """Pods of a node may be allowed the same cores; that they disturb each other is another check's matter."""
    return rank.pod is not None and rank.device.startswith("cpu")


def _close(told: float, counted: float) -> bool:
    return math.isclose(told, counted, rel_tol=1e-6)
