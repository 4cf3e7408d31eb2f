"""Progress of a run: counts, the running trial and its speed, and the time left."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from scalecurve_api import contract
from scalecurve_api.files import Within
from scalecurve_api.record import journal
from scalecurve_api.record.journal import JournalError
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_local.attempt import MAX_JOURNAL_BYTES

_TAIL_ROWS = 256
_SPAN_NS = 2_000_000_000


@dataclass(frozen=True)
class Pace:
    """Rank 0's newest step and window (-1 is warm-up), and rates of its last two seconds over all workers."""

    step: int
    window: int
    steps_per_second: float | None = None
    samples_per_second: float | None = None


@dataclass(frozen=True)
class RunProgress:
    """A snapshot of a run. ``message`` is what happens now, ``notes`` what was decided at its start."""

    total: int
    counts: Mapping[TrialPhase, int]
    trial: TrialSpec | None = None
    attempt: int = 0
    phase: TrialPhase | None = None
    pace: Pace | None = None
    elapsed_s: float = 0.0
    remaining_s: float | None = None
    message: str = ""
    notes: tuple[str, ...] = ()
    experiments: int = 1

    @property
    def name(self) -> str:
        """Of the running trial, with its experiment where several take turns."""
        if self.trial is None:
            return ""
        return self.trial.name if self.experiments == 1 else f"{self.trial.experiment}/{self.trial.name}"

    @property
    def done(self) -> int:
        return sum(count for phase, count in self.counts.items() if phase.final)


def joined(progress: RunProgress, others: Sequence[RunProgress]) -> RunProgress:
    """The progress of one experiment, with the counts and times of those that it takes turns with."""
    counts = Counter(progress.counts)
    for other in others:
        counts.update(other.counts)
    left = [each.remaining_s for each in (progress, *others)]
    return replace(
        progress,
        total=progress.total + sum(other.total for other in others),
        counts=counts,
        remaining_s=sum(filter(None, left)) if None not in left else None,
        experiments=1 + len(others),
    )


def read_pace(folder: Within, workers: int) -> Pace | None:
    """The pace at the end of rank 0's journal; None before its first step. Reads at most 8 KiB."""
    try:
        with (folder / contract.journal_file(0)).reading(MAX_JOURNAL_BYTES) as file:
            header = file.read(journal.HEADER.size)
            journal.read_rank(header, contract.journal_file(0))
            rows_written = (file.seek(0, 2) - journal.HEADER.size) // journal.ROW.size
            first = max(0, rows_written - _TAIL_ROWS)
            file.seek(journal.HEADER.size + first * journal.ROW.size)
            data = file.read((rows_written - first) * journal.ROW.size)
    except (OSError, JournalError):
        return None
    rows = [journal.StepRow(*fields) for fields in journal.ROW.iter_unpack(data)]
    return pace_of(rows, workers)


def pace_of(rows: Sequence[journal.StepRow], workers: int) -> Pace | None:
    """Rates over the steps of the last two seconds."""
    if not rows:
        return None
    last = rows[-1]
    recent = [row for row in rows if row.start_ns >= last.start_ns - _SPAN_NS]
    seconds = (last.start_ns - recent[0].start_ns) / 1e9
    if seconds <= 0:
        return Pace(last.step, last.window)
    return Pace(
        step=last.step,
        window=last.window,
        steps_per_second=(len(recent) - 1) / seconds,
        samples_per_second=workers * sum(row.samples for row in recent[:-1]) / seconds,
    )


def seconds_taken(record: TrialRecord) -> float | None:
    """From the first to the last entry of a record's timeline."""
    times = sorted(entry.at_ns for entry in record.timeline)
    return (times[-1] - times[0]) / 1e9 if times and times[-1] > times[0] else None


def estimate_remaining(
    trials: Sequence[TrialSpec], taken: Mapping[str, float], final: Collection[str], running_s: float
) -> float | None:
    """Seconds left: each unfinished trial takes the mean of its point, else of all; None before any has finished."""
    if not taken:
        return None
    by_point: dict[str, list[float]] = {}
    for trial in trials:
        if trial.name in taken:
            by_point.setdefault(trial.point.name, []).append(taken[trial.name])
    overall = sum(taken.values()) / len(taken)
    left = 0.0
    for trial in trials:
        if trial.name not in final:
            times = by_point.get(trial.point.name)
            left += sum(times) / len(times) if times else overall
    return max(0.0, left - running_s)
