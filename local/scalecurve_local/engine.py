"""The engine of one bundle: observe, ``lifecycle.decide``, act, until nothing is left to do.

Its whole state is on disk (``attempt``, ``bundle``), so it may be killed at any moment and resumed.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from scalecurve_api import contract
from scalecurve_api.lifecycle import Action, Collect, ExperimentPhase, Job, Observed, Start, Status, decide
from scalecurve_api.planning.horizon import dropped
from scalecurve_api.planning.plan import Plan
from scalecurve_api.record.ledger import LEDGER_FILE
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_local import durable
from scalecurve_local.attempt import (
    INTERRUPTIONS,
    MAX_RECORD_BYTES,
    RESULT,
    AttemptFolder,
    DamagedFileError,
    ExitReport,
)
from scalecurve_local.bundle import BundleFolder
from scalecurve_local.carrier import Carrier, State
from scalecurve_local.collect import collect
from scalecurve_local.durable import storing
from scalecurve_local.progress import Pace, RunProgress, estimate_remaining, read_pace, seconds_taken
from scalecurve_local.stop import StopRequest

_POLL_S = 0.25
Report = Callable[[RunProgress], None]


@dataclass(frozen=True)
class RunResult:
    """How a run ended. ``records`` holds every finished trial of the bundle, including those of earlier runs."""

    bundle: Path
    status: Status
    records: Mapping[str, TrialRecord]
    interrupted: bool = False
    out_of_time: bool = False  # a time limit, and not the user, ended it
    notes: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()  # what was torn in the bundle, and what was done about it
    sessions: int = 1  # that trials of the bundle were started in
    begun: bool = True  # whether this session is one of them
    futile: bool = False  # the command failed in the first trial, and was not started for the others
    pace: Pace | None = None  # of the trial that ran last, when it was seen last

    @property
    def exit_code(self) -> int:
        """0 good, 1 a trial did not succeed, 130 interrupted."""
        if self.interrupted:
            return 130
        good = (TrialPhase.succeeded, TrialPhase.full)
        bad = any(phase.final and phase not in good for phase in self.status.phases)
        return 1 if bad or self.status.phase is ExperimentPhase.failed else 0


def final(record: TrialRecord, spec: ExperimentSpec) -> Observed:
    """A published record is final, even if the policy would allow further attempts."""
    attempts = 1 + max(spec.failure_policy.retries, spec.failure_policy.retry_invalid)
    return Observed(record.attempt, (record.phase,) * attempts)


@dataclass(frozen=True)
class Running:
    """The attempt that the carrier has now, and since when it was watched."""

    trial: TrialSpec
    attempt: AttemptFolder
    id: str
    since: float


@dataclass
class Engine:
    """The trials of one bundle, run while its lock and what the carrier needs are held.

    ``paired`` names the session in which this experiment and another take turns.
    """

    spec: ExperimentSpec
    plan: Plan
    trials: Mapping[str, TrialSpec]
    folder: BundleFolder
    ledger: LedgerFile
    carrier: Carrier
    notes: tuple[str, ...]
    report: Report
    stop: StopRequest
    paired: str | None = None
    observed: dict[str, Observed] = field(default_factory=dict)
    records: dict[str, TrialRecord] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    running: Running | None = None
    begun: bool = False
    """Whether the ledger has this engine's session."""
    stops_passed_on: int = 0
    damage: tuple[str, ...] = ()
    pace: Pace | None = None

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.plan_ahead()

    def plan_ahead(self) -> None:
        """Drop the trials that are no longer needed."""
        results = {name: record.throughput for name, record in self.records.items()}
        full = {name for name, record in self.records.items() if record.phase is TrialPhase.full}
        needless = dropped(self.spec, self.plan, results, full)
        self.names = tuple(name for name in self.trials if name not in needless)

    def look(self) -> None:
        """Observe what earlier runs left; what a disk has torn of it is thrown away."""
        for name, trial in self.trials.items():
            self.attach(trial)
            if (note := self.folder.discard_damaged(name, trial.point.workers, self.ledger)) is not None:
                self.damage += (note,)
            self.observe(name)
        self.plan_ahead()
        self.show(decide(self.spec, self.names, self.observed).status)

    def attach(self, trial: TrialSpec) -> None:
        """Take over the attempt that an earlier engine left unfinished; torn papers name none."""
        for attempt in self.folder.attempts(trial.name)[0][-1:]:
            with suppress(DamagedFileError):
                if attempt.result is None and (started := attempt.started) is not None:
                    self.carrier.attach(started.id)
                    left = Running(trial, attempt, started.id, time.monotonic())
                    self.running = left if self.poll(left, 0) else self.running

    def advance(self, until: str | None = None) -> Status:
        """Run trials, in their order, until the trial ``until`` is final or nothing is left to do."""
        while True:
            self.plan_ahead()
            status = (decision := decide(self.spec, self.names, self.observed)).status
            if self.publish(status):
                continue  # what is known now may end the repetitions
            self.show(status)
            if until in self.records:
                return status
            if any([self.act(action) for action in decision.actions]):
                continue
            if self.running is None:
                return status
            self.wait_for_news(status)

    def finish(self, status: Status) -> RunResult:
        """The result, with the working state removed if nothing is left to do."""
        if status.phase.final:
            durable.remove(self.folder.work)
        stopped = self.stop.requested and not status.phase.final
        by_user = stopped and self.stop.times > 0
        futile = stopped and not by_user and self.stop.futile
        return RunResult(
            self.folder.path,
            status,
            self.records,
            interrupted=by_user,
            out_of_time=stopped and not by_user and not futile,
            futile=futile,
            notes=self.notes,
            damage=self.damage,
            pace=self.pace,
        )

    def observe(self, name: str) -> None:
        record = self.records.get(name) or self.folder.published(name)
        if record is not None:
            self.keep_record(record)
            self.observed[name] = final(record, self.spec)
            return
        attempts_there, highest = self.folder.attempts(name)
        highest = max(highest, self.ledger.attempts(name))
        history = tuple(self.noted(attempt, result).phase for attempt in attempts_there if (result := attempt.result))
        newest = attempts_there[-1] if attempts_there else None
        job = Job.absent if newest is None else self.job_of(newest, self.trials[name])
        self.observed[name] = Observed(highest, history, job)

    def noted(self, attempt: AttemptFolder, result: TrialRecord) -> TrialRecord:
        """Enter a result into the ledger before it is published or superseded."""
        with storing("write", self.folder.path / LEDGER_FILE):
            self.ledger.ended(result, (attempt.folder / RESULT / contract.TRIAL_FILE).read(MAX_RECORD_BYTES))
        return result

    def job_of(self, attempt: AttemptFolder, trial: TrialSpec) -> Job:
        """The state of an attempt's processes; an interrupted one is lost unless its run was complete."""
        workers = trial.point.workers
        if attempt.result is not None:
            return Job.absent
        if self.running is not None and self.running.attempt == attempt:
            return Job.running if len(attempt.ready(workers)) == workers else Job.starting
        report = attempt.exit
        if report is None or report.cause in INTERRUPTIONS:
            return Job.ended if attempt.complete(workers) else Job.lost
        return Job.ended

    def act(self, action: Action) -> bool:
        """Carry out an action; False if there was nothing to do."""
        trial = self.trials[action.trial]
        if isinstance(action, Start):
            if self.stop.requested:
                return False
            self.start(trial, action.attempt)
        elif isinstance(action, Collect):
            attempt = self.folder.attempts(trial.name)[0][-1]
            collect(trial, attempt, self.ledger.start_of(trial.name, attempt.number))
        else:
            # The spec does not change while the engine runs, so there is never a job to stop; none outlives its trial.
            return False
        self.observe(trial.name)
        return True

    def start(self, trial: TrialSpec, number: int) -> None:
        with storing("write", self.folder.path / LEDGER_FILE):
            if not self.begun:
                self.ledger.session(trial.session + 1, self.paired)
                self.begun = True
            self.ledger.started(trial.name, number)
        for attempt in self.folder.attempts(trial.name)[0]:
            if attempt.result is None:
                self.folder.discard(attempt)
        attempt = self.folder.begin_attempt(trial.name, number)
        self.running = Running(trial, attempt, self.carrier.start(trial, attempt, self.paired), time.monotonic())

    def publish(self, status: Status) -> bool:
        """Publish every result whose trial will have no further attempt; True if there was one."""
        before = len(self.records)
        for name, phase in zip(self.names, status.phases, strict=True):
            if phase.final and name not in self.records and self.observed[name].history:
                kept = [attempt for attempt in self.folder.attempts(name)[0] if attempt.result is not None]
                self.folder.publish(name, kept[-1])
                self.observe(name)
        if len(self.records) == before:
            return False
        self.stop.consider(self.records.values())
        return True

    def keep_record(self, record: TrialRecord) -> None:
        """Remember a published record, and remove working state that a kill left behind."""
        name = record.trial.name
        self.records[name] = record
        self.folder.forget(name)
        if (seconds := seconds_taken(record)) is not None:
            self.seconds[name] = seconds

    def wait_for_news(self, status: Status) -> None:
        """Poll, four times a second, until the state of the running trial changes."""
        running = self.running
        assert running is not None
        before = self.observed[running.trial.name]
        while self.observed[running.trial.name] == before:
            self.pass_on_stop(running)
            if not self.poll(running, _POLL_S):
                self.running = None
                self.report_lost(running)
            self.observe(running.trial.name)
            self.show(status)

    def poll(self, running: Running, wait_s: float) -> bool:
        """See how far an attempt is; whether it still runs."""
        state = self.carrier.poll([running.id], wait_s)[running.id]
        if state is not State.unknown:
            self.carrier.collect(running.id, running.attempt)
        return state is State.running

    def report_lost(self, running: Running) -> None:
        """An attempt that vanishes while it is watched is a try like any other, or it would be made without end."""
        if running.attempt.exit is None and not running.attempt.complete(running.trial.point.workers):
            now = time.time_ns()
            why = f"the carrier lost {running.id}"
            running.attempt.note(ExitReport(cause="supervisor-lost", message=why, started_ns=now, ended_ns=now))

    def pass_on_stop(self, running: Running) -> None:
        """Pass the user's stop to the carrier: gracefully the first time, immediately the second."""
        times = max(self.stop.times, int(self.stop.requested))
        if self.stops_passed_on < times:
            self.carrier.stop([running.id], self.stop.at_once)
            self.stops_passed_on = times

    def show(self, status: Status) -> None:
        running, phase, pace, attempt, running_s = self.running, None, None, 0, 0.0
        if running is not None:
            phase = status.phases[self.names.index(running.trial.name)]
            pace = read_pace(running.attempt.folder, running.trial.point.workers)
            self.pace = pace or self.pace
            attempt, running_s = running.attempt.number, time.monotonic() - running.since
        self.report(
            RunProgress(
                total=len(self.names),
                counts=status.counts,
                trial=running.trial if running is not None else None,
                attempt=attempt,
                phase=phase,
                pace=pace,
                elapsed_s=time.monotonic() - self.began,
                remaining_s=estimate_remaining(
                    [self.trials[name] for name in self.names], self.seconds, self.records.keys(), running_s
                ),
                message="stopping" if self.stop.requested else status.message,
                notes=self.notes,
            )
        )
