"""What an experiment will take: its ordered trials with steps, time and cost, before a device is taken.

Times come from a step time that the user names, or from an earlier bundle: the median wall time of the trials that
ran the same point. What neither knows is left open, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from scalebench.bundle import Bundle
from scalebench.table import PENDING, Cell, Column, Table
from scalebench_api.experiment import Program, ScalingExperiment
from scalebench_api.plan import Plan, make_plan
from scalebench_api.trial import Point, TrialPhase, TrialSpec

DEFAULT_STARTUP_SECONDS = 15.0


@dataclass(frozen=True)
class Planned:
    """The trials in order, with seconds for each (None where unknown), and their tables."""

    plan: Plan
    seconds: tuple[float | None, ...]
    per_worker_hour: float | None
    currency: str

    @property
    def worker_hours(self) -> float | None:
        """Summed over the trials whose time is known; None when none is."""
        known = [s * t.point.workers for s, t in zip(self.seconds, self.plan.trials, strict=True) if s is not None]
        return sum(known) / 3600 if known else None

    @property
    def hours(self) -> float | None:
        """One trial after another."""
        known = [seconds for seconds in self.seconds if seconds is not None]
        return sum(known) / 3600 if known else None

    @property
    def cost(self) -> float | None:
        """Worker-hours times the price, where both are known."""
        if self.worker_hours is None or self.per_worker_hour is None:
            return None
        return self.worker_hours * self.per_worker_hour

    def tables(self) -> tuple[Table, Table]:
        """The trials in order, and the totals."""
        return _trials(self), _totals(self)


def plan(
    experiment: ScalingExperiment,
    *,
    step_seconds: float | None = None,
    startup_seconds: float = DEFAULT_STARTUP_SECONDS,
    earlier: Bundle | None = None,
) -> Planned:
    """The ordered trials of an experiment, timed by ``earlier`` where it ran the point, else by ``step_seconds``.

    ``step_seconds`` is the time of one step at any worker count; ``startup_seconds`` is added to each trial.
    """
    made = make_plan(experiment)
    known = _trial_seconds(earlier) if earlier else {}
    by_step = _by_step(step_seconds, startup_seconds) if step_seconds is not None else None
    seconds = tuple(known.get(_same(t.point)) or (by_step(t) if by_step else None) for t in made.trials)
    cost = experiment.spec.cost
    return Planned(made, seconds, cost.per_worker_hour if cost else None, cost.currency if cost else "USD")


def steps_of(trial: TrialSpec) -> int:
    """Steps of a trial when its warm-up is stable at once: timed windows, and as many without communication."""
    measure = trial.measure
    if trial.workload.program is Program.allreduce:
        sizes, size = 0, trial.workload.sizes.min_bytes
        while size <= trial.workload.sizes.max_bytes:
            sizes, size = sizes + 1, size * trial.workload.sizes.factor
        return sizes * 2 * (trial.workload.sizes.iterations + trial.workload.sizes.warmup)
    timed = measure.windows * measure.steps_per_window
    alternated = timed if measure.exposed_communication and trial.workload.program is Program.torch else 0
    return measure.warmup_steps + timed + alternated


def _by_step(step_seconds: float, startup_seconds: float) -> Callable[[TrialSpec], float]:
    return lambda trial: startup_seconds + steps_of(trial) * step_seconds


def _same(point: Point) -> str:
    return point.name


def _trial_seconds(bundle: Bundle) -> Mapping[str, float]:
    """Median seconds of the trials of each point, from the first to the last entry of their timelines."""
    spans: dict[str, list[float]] = {}
    for trial in bundle.trials:
        record = trial.record
        if record is not None and record.phase is TrialPhase.succeeded and len(record.timeline) > 1:
            times = [entry.at_ns for entry in record.timeline]
            spans.setdefault(_same(trial.spec.point), []).append((max(times) - min(times)) / 1e9)
    return {name: median(values) for name, values in spans.items()}


def _trials(planned: Planned) -> Table:
    columns = (
        Column("order", "#", "count"),
        Column("trial", "Trial"),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout"),
        Column("repetition", "Repetition", "count"),
        Column("global_batch", "Global batch", "count"),
        Column("batch_per_worker", "Batch a worker", "count"),
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
        Column("hours", "Time, one after another", "number", "h"),
        Column("worker_hours", "Worker-hours", "number", "h"),
        Column("cost", "Cost", "number", planned.currency),
    )
    values = (planned.hours, planned.worker_hours, planned.cost)
    row: tuple[Cell, ...] = (len(planned.plan.trials), len(planned.plan.points))
    row += tuple(PENDING if value is None else value for value in values)
    notes = []
    if open_:
        notes.append(
            f"{open_} of {len(planned.seconds)} trials have no time: name one with --step-time, or an earlier "
            "bundle with --from"
        )
    if planned.per_worker_hour is None:
        notes.append("no price: set spec.cost.perWorkerHour")
    return Table("totals", "Totals", columns, (row,), tuple(notes))
