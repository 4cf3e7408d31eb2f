"""The engine for one machine: observe, ``lifecycle.decide``, act, until nothing is left to do.

Its whole state is on disk (``attempt``, ``bundle``), so it may be killed at any moment and resumed.
"""

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalecurve_api.lifecycle import Action, Collect, ExperimentPhase, Job, Observed, Start, Status, decide
from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.plan import Plan, make_plan
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_local import durable
from scalecurve_local.attempt import INTERRUPTIONS, AttemptFolder
from scalecurve_local.bundle import BundleFolder
from scalecurve_local.collect import collect
from scalecurve_local.devices.cores import survey_cores
from scalecurve_local.devices.gpus import survey_gpus
from scalecurve_local.devices.locks import Interrupted, Locks, device_lock_files, take
from scalecurve_local.devices.shares import Allotment, Machine, allot
from scalecurve_local.errors import BadInput, Unavailable
from scalecurve_local.execution.commands import check_installed
from scalecurve_local.execution.running_trial import RunningTrial
from scalecurve_local.progress import RunProgress, estimate_remaining, read_pace, seconds_taken
from scalecurve_local.stop import StopRequest
from scalecurve_local.supervision import supervisor
from scalecurve_local.supervision.orphans import end_orphans

_POLL_S = 0.25
Report = Callable[[RunProgress], None]


@dataclass(frozen=True)
class RunResult:
    """How a run ended. ``records`` holds every finished trial of the bundle, including those of earlier runs."""

    bundle: Path
    status: Status
    records: Mapping[str, TrialRecord]
    interrupted: bool = False
    out_of_time: bool = False
    """A time limit, and not the user, ended it."""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 good, 1 a trial did not succeed, 130 interrupted."""
        if self.interrupted:
            return 130
        bad = any(phase.final and phase is not TrialPhase.succeeded for phase in self.status.phases)
        return 1 if bad or self.status.phase is ExperimentPhase.failed else 0


def run(
    experiment: ScalingExperiment,
    source: str,
    bundle: Path,
    *,
    resume: bool = False,
    oversubscribe: bool = False,
    wait: bool = True,
    metrics_port: int | None = None,
    report: Report | None = None,
    stop: StopRequest | None = None,
) -> RunResult:
    """Run an experiment on this machine, or the rest of it.

    ``source`` is the experiment's YAML, stored unchanged. ``wait``: for devices that another run holds.
    ``report`` is called about four times a second.

    Raises:
        BadInput: for an experiment or a bundle that cannot be run here (exit code 2).
        Unavailable: when devices or cores are missing or held (3).
        StorageError: when files cannot be read or written (3).
    """
    stop, say = stop or StopRequest(), report or (lambda _: None)
    if platform.system() != "Linux":
        raise Unavailable(f"experiments run on Linux only (prctl, /proc), and this is {platform.system()}")
    try:
        plan = make_plan(experiment)
    except AxisError as error:
        raise BadInput(str(error)) from error
    machine = Machine(survey_cores(), survey_gpus(os.environ))
    allotment = allot(plan.trials, machine, oversubscribe)
    check_installed(plan.trials)
    folder = BundleFolder(bundle.absolute())
    if not resume:
        folder.refuse_unless_empty()
    else:
        folder.refuse_another(experiment)
    folder.refuse_unless_writable()
    waiting = _Waiting(plan, allotment, say)
    locks = Locks([])
    try:
        devices = device_lock_files(allotment.locks)
        locks.extend(
            take(devices, "a device of this run", folder.path, wait=wait, say=waiting, stopped=lambda: stop.requested)
        )
        folder.prepare()
        mine = [folder.lock_file]
        locks.extend(take(mine, "this bundle", folder.path, wait=False, say=waiting, stopped=lambda: stop.requested))
        folder.begin(experiment, source, resume)
        if ended := end_orphans():
            waiting(f"ended {ended} processes left by an earlier run")
        hide_gpus = bool(machine.gpus)
        return _Engine(experiment, plan, allotment, folder, locks.descriptors, hide_gpus, metrics_port, say, stop).run()
    except Interrupted:
        records = {name: record for name in waiting.names if resume and (record := folder.published(name))}
        observed = {name: _final(record, experiment.spec) for name, record in records.items()}
        status = decide(experiment.spec, waiting.names, observed).status
        return _stopped(stop, folder.path, status, records, allotment.notes)
    finally:
        locks.release()


def _final(record: TrialRecord, spec: ExperimentSpec) -> Observed:
    """A published record is final, even if the policy would allow further attempts."""
    attempts = 1 + max(spec.failure_policy.retries, spec.failure_policy.retry_invalid)
    return Observed(record.attempt, (record.phase,) * attempts)


def _stopped(
    stop: StopRequest, bundle: Path, status: Status, records: Mapping[str, TrialRecord], notes: tuple[str, ...]
) -> RunResult:
    by_user = stop.times > 0
    return RunResult(bundle, status, records, by_user, not by_user, notes)


class _Waiting:
    """Progress before the first trial: only a message."""

    def __init__(self, plan: Plan, allotment: Allotment, report: Report) -> None:
        self.names = [trial.name for trial in plan.trials]
        self.notes, self.report = allotment.notes, report

    def __call__(self, message: str) -> None:
        self.report(RunProgress(len(self.names), {}, message=message, notes=self.notes))


class _Engine:
    """One run that holds its locks."""

    def __init__(
        self,
        experiment: ScalingExperiment,
        plan: Plan,
        allotment: Allotment,
        folder: BundleFolder,
        lock_descriptors: Sequence[int],
        hide_gpus: bool,
        metrics_port: int | None,
        report: Report,
        stop: StopRequest,
    ) -> None:
        # Trials on one machine would disturb each other: parallelism is for clusters.
        self.spec = experiment.spec.model_copy(update={"parallelism": 1})
        self.trials = {trial.name: trial for trial in plan.trials}
        self.names = tuple(self.trials)
        self.allotment, self.folder, self.lock_descriptors = allotment, folder, lock_descriptors
        self.hide_gpus, self.metrics_port, self.report, self.stop = hide_gpus, metrics_port, report, stop
        self.observed: dict[str, Observed] = {}
        self.records: dict[str, TrialRecord] = {}
        self.seconds: dict[str, float] = {}
        self.running: RunningTrial | None = None
        self.stops_passed_on = 0
        self.began = time.monotonic()

    def run(self) -> RunResult:
        """Loop until nothing is left to do, or a stop was requested and carried out."""
        for name in self.names:
            self.observe(name)
        try:
            while True:
                decision = decide(self.spec, self.names, self.observed)
                self.publish(decision.status)
                self.show(decision.status)
                acted = [self.act(action) for action in decision.actions]
                if any(acted):
                    continue
                if self.running is None:
                    break
                self.wait_for_news(decision.status)
        finally:
            self.end_running()
        status = decision.status
        if status.phase.final:
            durable.remove(self.folder.work)
        if self.stop.requested and not status.phase.final:
            return _stopped(self.stop, self.folder.path, status, self.records, self.allotment.notes)
        return RunResult(self.folder.path, status, self.records, notes=self.allotment.notes)

    def observe(self, name: str) -> None:
        """Read a trial's state from disk."""
        record = self.records.get(name) or self.folder.published(name)
        if record is not None:
            self.keep_record(record)
            self.observed[name] = _final(record, self.spec)
            return
        attempts_there, highest = self.folder.attempts(name)
        history = tuple(result.phase for attempt in attempts_there if (result := attempt.result) is not None)
        newest = attempts_there[-1] if attempts_there else None
        job = Job.absent if newest is None else self.job_of(newest, self.trials[name])
        self.observed[name] = Observed(highest, history, job)

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
            collect(trial, self.newest(trial))
        else:
            # The spec does not change while the engine runs, so there is never a job to stop; none outlives its trial.
            return False
        self.observe(trial.name)
        return True

    def start(self, trial: TrialSpec, number: int) -> None:
        """Start an attempt, and remove interrupted ones."""
        for attempt in self.folder.attempts(trial.name)[0]:
            if attempt.result is None:
                self.folder.discard(attempt)
        attempt = self.folder.begin_attempt(trial.name, number)
        share = self.allotment.shares[trial.name]
        self.running = RunningTrial(
            trial, attempt, share, os.environ, self.lock_descriptors, self.metrics_port, self.hide_gpus
        )

    def newest(self, trial: TrialSpec) -> AttemptFolder:
        return self.folder.attempts(trial.name)[0][-1]

    def publish(self, status: Status) -> None:
        """Publish every result whose trial will have no further attempt."""
        for name, phase in zip(self.names, status.phases, strict=True):
            if phase.final and name not in self.records and self.observed[name].history:
                kept = [attempt for attempt in self.folder.attempts(name)[0] if attempt.result is not None]
                self.folder.publish(name, kept[-1])
                self.observe(name)

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
            self.pass_on_stop()
            if running.wait(_POLL_S):
                self.running = None
            self.observe(running.trial.name)
            self.show(status)

    def pass_on_stop(self) -> None:
        """Pass the user's stop to the supervisor: gracefully the first time, immediately the second."""
        times = max(self.stop.times, int(self.stop.requested))
        if self.running is not None and self.stops_passed_on < times:
            self.running.send(supervisor.KILL if self.stop.at_once else supervisor.STOP)
            self.stops_passed_on = times

    def end_running(self) -> None:
        """Leave nothing running when the engine itself fails: its error is raised when all processes have ended."""
        if self.running is not None:
            self.running.send(supervisor.STOP)
            self.running.leave()
            self.running = None

    def show(self, status: Status) -> None:
        running, phase, pace, attempt, running_s = self.running, None, None, 0, 0.0
        if running is not None:
            phase = status.phases[self.names.index(running.trial.name)]
            pace = read_pace(running.attempt.folder, running.trial.point.workers)
            attempt, running_s = running.attempt.number, time.monotonic() - running.started
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
                    tuple(self.trials.values()), self.seconds, self.records.keys(), running_s
                ),
                message="stopping" if self.stop.requested else status.message,
                notes=self.allotment.notes,
            )
        )
