"""Plan an experiment: its ordered trials with steps, time and cost, without using a device.

Times come from a step time that the user names, or from an earlier bundle: the median wall time of the trials that
ran the same point of the same workload. What neither knows is left open, never guessed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import PENDING, Cell, Column, Table
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import Plan, make_plan
from scalecurve_api.programs.allreduce import AllReduceWorkload
from scalecurve_api.programs.horovod import TorchTraining
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialSpec

DEFAULT_STARTUP_SECONDS = 15.0


@dataclass(frozen=True)
class Planned:
    """The trials in order, with seconds for each (None where unknown), and their tables.

    ``source`` says where the seconds come from, a sentence each.
    """

    plan: Plan
    seconds: tuple[float | None, ...]
    per_worker_hour: float | None
    currency: str
    source: tuple[str, ...] = ()

    @property
    def worker_hours(self) -> float | None:
        """Sum over the trials with known time; None if there are none."""
        values = [s * t.point.workers for s, t in zip(self.seconds, self.plan.trials, strict=True) if s is not None]
        return sum(values) / 3600 if values else None

    @property
    def hours(self) -> float | None:
        values = [seconds for seconds in self.seconds if seconds is not None]
        return sum(values) / 3600 if values else None

    @property
    def cost(self) -> float | None:
        if self.worker_hours is None or self.per_worker_hour is None:
            return None
        return self.worker_hours * self.per_worker_hour

    def tables(self) -> tuple[Table, Table]:
        return _trials(self), _totals(self)


def plan(
    experiment: ScalingExperiment,
    *,
    step_seconds: float | None = None,
    startup_seconds: float = DEFAULT_STARTUP_SECONDS,
    earlier: Bundle | None = None,
) -> Planned:
    """The ordered trials of an experiment, timed by ``earlier`` where it ran the point, else by ``step_seconds``.

    ``step_seconds`` is the time of one step at any worker count; ``startup_seconds`` is added to each trial timed so.
    """
    made = make_plan(experiment)
    ran = _seconds_in(earlier) if earlier else lambda trial: None
    times = [ran(trial) for trial in made.trials]
    seconds = list(times)
    if step_seconds is not None:
        stepped = [startup_seconds + steps_of(trial) * step_seconds for trial in made.trials]
        seconds = [by_step if timed is None else timed for timed, by_step in zip(times, stepped, strict=True)]
    source = []
    if earlier is not None:
        timed = sum(value is not None for value in times)
        source.append(f"{timed} of {len(times)} trials use times from {earlier.label} (same point and workload)")
    if step_seconds is not None:
        source.append(f"{step_seconds:g} s per step and {startup_seconds:g} s of startup assumed for all others")
    cost = experiment.spec.cost
    return Planned(
        plan=made,
        seconds=tuple(seconds),
        per_worker_hour=cost.per_worker_hour if cost else None,
        currency=cost.currency if cost else "USD",
        source=tuple(source),
    )


def steps_of(trial: TrialSpec) -> int:
    """Steps of a trial with the shortest warm-up: timed windows, and as many without communication."""
    measure = trial.measure
    if isinstance(trial.workload, AllReduceWorkload):
        sizes = trial.workload.sizes
        messages, size = 0, sizes.min_bytes
        while size <= sizes.max_bytes:
            messages, size = messages + 1, size * sizes.factor
        return messages * 2 * (sizes.iterations + sizes.warmup)
    timed = measure.windows * measure.steps_per_window
    splits = measure.exposed_communication and isinstance(trial.workload, TorchTraining)
    alternated = timed if splits else 0
    return measure.warmup_steps + timed + alternated


def _seconds_in(bundle: Bundle) -> Callable[[TrialSpec], float | None]:
    """A trial's duration from a bundle: the median over matching trials; None if there are none."""
    ran: dict[str, list[TrialRecord]] = {}
    for trial in bundle.trials:
        if trial.good and trial.record is not None:
            ran.setdefault(_same(trial.spec), []).append(trial.record)

    def seconds(trial: TrialSpec) -> float | None:
        found = [_as_long_as(record, trial) for record in (ran.get(_same(trial), ()) if ran else ())]
        durations = [value for value in found if value is not None]
        return median(durations) if durations else None

    return seconds


def _same(trial: TrialSpec) -> str:
    """Key of trials with the same step time: everything but repetition and length of measurement."""
    return canonical_json({"point": trial.point.wire(), "workload": trial.workload.wire()})


def _as_long_as(record: TrialRecord, trial: TrialSpec) -> float | None:
    """Seconds from the first to the last entry of the record's timeline, with this trial's number of steps."""
    times = [entry.at_ns for entry in record.timeline]
    if len(times) < 2 or record.trial.measure.accuracy != trial.measure.accuracy:
        return None
    span = (max(times) - min(times)) / 1e9
    before, now = steps_of(record.trial), steps_of(trial)
    if before == now:
        return span
    steps = sum(window.steps for window in record.windows)
    if not steps:
        return None
    # Of all kinds of windows, for the longer trial takes turns between them too.
    step = sum(window.wall_ns for window in record.windows) / steps / 1e9
    return max(0.0, span - before * step) + now * step


def _trials(planned: Planned) -> Table:
    columns = (
        Column("order", "#", "count"),
        Column("trial", "Trial"),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout"),
        Column("repetition", "Repetition", "count"),
        Column("global_batch", "Global batch", "count"),
        Column("batch_per_worker", "Batch per worker", "count"),
        Column("steps", "Steps", "count"),
        Column("seconds", "Time", "number", "s"),
    )
    rows: list[tuple[Cell, ...]] = []
    for index, (trial, seconds) in enumerate(zip(planned.plan.trials, planned.seconds, strict=True), start=1):
        point = trial.point
        rows.append(
            (
                index,
                trial.name,
                point.series,
                point.workers,
                point.layout,
                trial.repetition + 1,
                point.global_batch,
                point.batch_per_worker,
                steps_of(trial),
                PENDING if seconds is None else seconds,
            )
        )
    return Table("trials", f"Plan of {planned.plan.experiment}", columns, tuple(rows))


def _totals(planned: Planned) -> Table:
    open_ = sum(seconds is None for seconds in planned.seconds)
    columns = (
        Column("trials", "Trials", "count"),
        Column("points", "Points", "count"),
        Column("hours", "Time, sequential", "number", "h"),
        Column("worker_hours", "Worker-hours", "number", "h"),
        Column("cost", "Cost", "number", planned.currency),
    )
    values = (planned.hours, planned.worker_hours, planned.cost)
    row: tuple[Cell, ...] = (len(planned.plan.trials), len(planned.plan.points))
    row += tuple(PENDING if value is None else value for value in values)
    notes = list(planned.source)
    if open_:
        left_out = "" if open_ == len(planned.seconds) else " and are missing from the totals"
        notes.append(
            f"{open_} of {len(planned.seconds)} trials have no time estimate{left_out}: use --step-time, or an "
            "earlier bundle with --from"
        )
    if planned.per_worker_hour is None:
        notes.append("no price: set spec.cost.perWorkerHour")
    return Table("totals", "Totals", columns, (row,), tuple(notes))
