"""Plan an experiment: its ordered trials with steps, time and cost, without using a device.

Times come from a step time that the user names, or from an earlier bundle: the median wall time of the trials that
ran the same point of the same workload. What neither knows is left open, never guessed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import Bundle
from scalecurve.render import formatting
from scalecurve.render.table import PENDING, Cell, Column, Table, table_of
from scalecurve.statistics.comparison import detectable
from scalecurve.statistics.estimate import LARGEST_FACTOR
from scalecurve.statistics.prior import SESSIONS
from scalecurve.statistics.spread import Spread, pooled, total
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import Plan, make_plan
from scalecurve_api.planning.precision import LEAST
from scalecurve_api.planning.runner_choice import choices
from scalecurve_api.programs.torch import TorchTraining
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.measure import Repeated
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.text import count as counted

DEFAULT_STARTUP_SECONDS = 15.0
ASSUMED_SD = 0.005  # between repetitions of a point, where no bundle tells
LEAST_SD = 1e-5  # repetitions that differ by less were copied or simulated


@dataclass(frozen=True)
class Planned:
    """The trials in order, with seconds for each (None where unknown), and their tables.

    ``source`` says where the seconds come from, ``power`` what change so many repetitions can show; a sentence each.
    """

    plan: Plan
    seconds: tuple[float | None, ...]
    per_worker_hour: float | None
    currency: str
    source: tuple[str, ...] = ()
    power: tuple[str, ...] = ()
    carriers: str = ""  # kinds of job, best first

    @property
    def worker_hours(self) -> float | None:
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
        trials = table_of(
            "trials",
            f"Plan of {self.plan.experiment}",
            zip(range(1, len(self.seconds) + 1), self.plan.trials, self.seconds, strict=True),
            (
                (Column("order", "#", "count"), lambda row: row[0]),
                (Column("trial", "Trial"), lambda row: row[1].name),
                (Column("series", "Series"), lambda row: row[1].point.series),
                (Column("workers", "Workers", "count"), lambda row: row[1].point.workers),
                (Column("layout", "Layout"), lambda row: row[1].point.layout),
                (Column("repetition", "Repetition", "count"), lambda row: row[1].repetition + 1),
                (Column("global_batch", "Global batch", "count"), lambda row: row[1].point.global_batch),
                (Column("batch_per_worker", "Batch per worker", "count"), lambda row: row[1].point.batch_per_worker),
                (Column("steps", "Steps", "count"), lambda row: steps_of(row[1])),
                (Column("seconds", "Time", "number", "s"), lambda row: _or_pending(row[2])),
            ),
        )
        return trials, self._totals()

    def _totals(self) -> Table:
        notes = list(self.source)
        if open_ := self.seconds.count(None):
            left_out = "" if open_ == len(self.seconds) else " and are missing from the totals"
            notes.append(
                f"{open_} of {counted(len(self.seconds), 'trial')} have no time estimate{left_out}: "
                "use --step-time, or an earlier bundle with --from"
            )
        if self.per_worker_hour is None:
            notes.append("no price: set spec.cost.perWorkerHour")
        notes += self.power
        if self.carriers:
            notes.append(f"on a cluster, the first of these that is installed carries the trials: {self.carriers}")
        return table_of(
            "totals",
            "Totals",
            [self],
            (
                (Column("trials", "Trials", "count"), lambda planned: len(planned.plan.trials)),
                (Column("points", "Points", "count"), lambda planned: len(planned.plan.points)),
                (Column("hours", "Time, sequential", "number", "h"), lambda planned: _or_pending(planned.hours)),
                (Column("worker_hours", "Worker-hours", "number", "h"), lambda p: _or_pending(p.worker_hours)),
                (Column("cost", "Cost", "number", self.currency), lambda planned: _or_pending(planned.cost)),
            ),
            notes,
        )


def plan(
    experiment: ScalingExperiment,
    *,
    step_seconds: float | None = None,
    startup_seconds: float = DEFAULT_STARTUP_SECONDS,
    earlier: Bundle | None = None,
    session: int | None = None,
) -> Planned:
    """Order the trials of an experiment and estimate how long each takes.

    Args:
        experiment: The experiment.
        step_seconds: Time of one step at any worker count, for points that `earlier` did not run.
        startup_seconds: Added to each trial that is estimated by `step_seconds`.
        earlier: A bundle of the same experiment, whose times are used.
        session: Number of the session to plan, from 0; all that the experiment asks for by default.

    Returns:
        The trials in the order in which they run, with their times.
    """
    measure = experiment.spec.measure
    made = make_plan(experiment, measure.sessions.count if session is None else session + 1)
    if session is not None:
        made = replace(made, trials=made.trials[len(made.trials) * session // (session + 1) :])
    ran = seconds_in(earlier) if earlier else lambda trial: None
    times = [ran(trial) for trial in made.trials]
    seconds, source = list(times), []
    if earlier is not None:
        timed = sum(value is not None for value in times)
        source.append(
            f"{timed} of {counted(len(times), 'trial')} use times from {earlier.label} (same point and workload)"
        )
    if step_seconds is not None:
        stepped = [startup_seconds + steps_of(trial) * step_seconds for trial in made.trials]
        seconds = [by_step if timed is None else timed for timed, by_step in zip(times, stepped, strict=True)]
        source.append(f"{step_seconds:g} s per step and {startup_seconds:g} s of startup assumed for all others")
    source += _describe_repetitions(measure, session)
    source += _ladder(experiment)
    cost = experiment.spec.cost
    price, currency = (cost.per_worker_hour, cost.currency) if cost else (None, "USD")
    return Planned(
        made, tuple(seconds), price, currency, tuple(source), _power(experiment, earlier), _carriers(experiment, made)
    )


def _carriers(experiment: ScalingExperiment, plan: Plan) -> str:
    """What ``runner: auto`` takes, best first; empty where the experiment names its runner."""
    if experiment.spec.runner:
        return ""
    return ", ".join(option.runner.value for option in choices(plan))


def _power(experiment: ScalingExperiment, earlier: Bundle | None) -> tuple[str, ...]:
    """The smallest change of throughput that so many repetitions show, by turns in one session."""
    if experiment.spec.workload.calls() is not None:
        return ()
    repetitions = experiment.spec.measure.repetitions
    if repetitions == 1:
        return ("one repetition shows no change and has no interval: set measure.repetitions",)
    noise = pooled(p.samples for series in measure(earlier) for p in series.points) if earlier else None
    noise = noise if noise and noise.variance > LEAST_SD**2 else None
    variance = noise.variance if noise else ASSUMED_SD**2
    differ = f"repetitions differ by {formatting.percent(variance**0.5, 2)} (standard deviation, "
    differ += f"as in {earlier.label})" if noise and earlier else "assumed; --from takes it from a bundle)"
    inside = Spread(2 * variance / repetitions, 2 * (repetitions - 1))
    apart = detectable(total([Spread(2 * SESSIONS.variance, SESSIONS.degrees), inside]))
    turns, sessions = (
        f"above a factor of {LARGEST_FACTOR:g}" if each is None else formatting.percent(each)
        for each in (detectable(inside), apart)
    )
    return (
        f"smallest detectable change of throughput {turns} within one session (run --against), {sessions} between two "
        f"sessions (by the prior of 0.9 %, 4 degrees of freedom), if {differ}",
    )


def _describe_repetitions(measure: Repeated, session: int | None) -> Iterator[str]:
    """What sessions and precision mean for time and money."""
    count, hours = measure.sessions.count, measure.sessions.every_hours
    if session is None and count > 1:
        apart = f", {hours:g} h or more from one start to the next" if hours else ""
        yield f"{count} sessions{apart}; the totals are of all of them"
        yield "on one machine, `scalecurve run` runs the first, and `--add-session` each further one"
    if measure.precision is not None:
        least, most = min(max(measure.repetitions, LEAST), measure.most_repetitions), measure.most_repetitions
        target = f"every efficiency of a series is known to {formatting.stated_percent(measure.precision.efficiency)}"
        share = f"{formatting.percent(least / most, 0)} of them at least"
        yield f"{least} to {most} repetitions in a session, until {target}: the totals are an upper limit, {share}"


def _ladder(experiment: ScalingExperiment) -> Iterator[str]:
    ladder = experiment.spec.scaling.batch.ladder
    if ladder is not None:
        yield (
            f"at each worker count the batch per worker rises from {ladder.from_} by a factor of {ladder.factor} until "
            f"one does not fit into memory, to {ladder.batches[-1]} at most: larger batches are then not run, and the "
            "totals are an upper limit"
        )


def steps_of(trial: TrialSpec) -> int:
    """Steps of a trial with the shortest warm-up: timed windows, and as many without communication."""
    measure = trial.measure
    if (calls := trial.workload.calls()) is not None:
        return calls
    timed = measure.windows * measure.steps_per_window
    splits = measure.exposed_communication and isinstance(trial.workload, TorchTraining)
    return measure.warmup_steps + timed * (2 if splits else 1)


def seconds_in(bundle: Bundle) -> Callable[[TrialSpec], float | None]:
    """A trial's duration from a bundle: the median over matching trials; None if there are none."""
    ran: dict[str, list[TrialRecord]] = {}
    for trial in bundle.trials:
        if trial.good and trial.record is not None:
            ran.setdefault(_same(trial.spec), []).append(trial.record)

    def seconds(trial: TrialSpec) -> float | None:
        timed = [_scale_duration(record, trial) for record in (ran.get(_same(trial), ()) if ran else ())]
        durations = [value for value in timed if value is not None]
        return median(durations) if durations else None

    return seconds


def _same(trial: TrialSpec) -> str:
    """Key of trials with the same step time: everything but repetition and length of measurement."""
    return canonical_json({"point": trial.point.wire(), "workload": trial.workload.wire()})


def _scale_duration(record: TrialRecord, trial: TrialSpec) -> float | None:
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


def _or_pending(value: float | None) -> Cell:
    return PENDING if value is None else value
