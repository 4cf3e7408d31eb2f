"""A session on this machine: of one experiment, or of two that take turns, so that both meet the same noise.

Each experiment has a bundle of its own, because every verb reads a bundle as one experiment; that the two are halves of
one session stands in their records (``TrialRecord.paired``).
"""

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Unpack

from scalecurve_api.lifecycle import decide
from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.difference import first_difference
from scalecurve_api.planning.horizon import dropped
from scalecurve_api.planning.plan import MAX_TRIALS, Plan, make_plan
from scalecurve_api.record.ledger import Event
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.secrets import experiment_without_secrets
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_api.text import count, few
from scalecurve_api.validation.redaction import text_without_secrets
from scalecurve_local.attempt import put_aside
from scalecurve_local.bundle import BundleFolder
from scalecurve_local.carrier import Carrier
from scalecurve_local.engine import Engine, Report, RunResult, final
from scalecurve_local.errors import InputError
from scalecurve_local.execution.this_machine import MachineOptions, ThisMachine
from scalecurve_local.progress import RunProgress, joined
from scalecurve_local.stop import StopRequest, StopRequestedError


class Options(MachineOptions, total=False):
    """How to run."""

    resume: bool
    """The rest of an interrupted run."""
    add_session: bool
    """Once more, as a further session of a finished bundle."""
    add_points: bool
    """The points that the experiment has and the bundle lacks, in the bundle's session."""
    report: Report
    """Called about four times a second."""
    stop: StopRequest
    carrier: Carrier
    """What carries the trials; by default the processes of this machine, whose options another does not know."""


@dataclass(frozen=True)
class RunRequest:
    """An experiment, its YAML, which is stored without its secrets, and the bundle of its records."""

    experiment: ScalingExperiment
    source: str
    bundle: Path

    @property
    def public(self) -> ScalingExperiment:
        """The experiment as the bundle has it."""
        return experiment_without_secrets(self.experiment)

    @property
    def folder(self) -> BundleFolder:
        return BundleFolder(self.bundle.absolute())


@dataclass(frozen=True)
class Prepared:
    """A job whose bundle takes it, and has ``sessions``: the plan of all up to ``session``, the one to run, from 0."""

    job: RunRequest
    plan: Plan
    sessions: int
    session: int
    continues: bool
    before: ScalingExperiment | None = None
    """The experiment as it was, where points are added."""


def prepare(job: RunRequest, *, resume: bool = False, add_session: bool = False, add_points: bool = False) -> Prepared:
    """Plan a new bundle, the rest of one, further points, or a further session of a finished one; nothing is written.

    Raises:
        InputError: when the bundle is of another experiment or not finished, or a matrix value does not fit its field.
        StorageError: when the bundle cannot be read or written.
    """
    folder = job.folder
    folder.refuse_unless_writable()
    before = None
    if add_points:
        folder.refuse_links()
        before = folder.experiment_before(job.public)
    elif resume or add_session:
        folder.refuse_links()
        folder.refuse_another(job.public)
    else:
        folder.refuse_unless_empty()
    try:
        first = make_plan(job.experiment)
    except AxisError as error:
        raise InputError(str(error)) from error
    sessions = folder.sessions(first.points)
    if add_points and sessions > 1:
        raise InputError(
            f"{folder.path}: has {count(sessions, 'session')}, and points are added to a bundle of one: run the new "
            "worker counts as an experiment of their own, and give both bundles to report and fit"
        )
    last = sessions + add_session
    if (trials := len(first.trials) * last) > MAX_TRIALS:
        raise InputError(f"{folder.path}: session {last} makes {count(trials, 'trial')}; at most {MAX_TRIALS}")
    if add_session:
        _refuse_unfinished(job, first if sessions == 1 else make_plan(job.experiment, sessions))
    plan = first if last == 1 else make_plan(job.experiment, last)
    return Prepared(job, plan, sessions, last - 1, resume or add_session or add_points, before)


def _refuse_unfinished(job: RunRequest, plan: Plan) -> None:
    needless, names, spec = set[str](), plan.trials.names, job.experiment.spec
    if spec.measure.precision is not None or spec.scaling.batch.ladder is not None:
        published = {name: record for name in names if (record := job.folder.published(name)) is not None}
        needless = _needless(job, plan, published)
    job.folder.refuse_unfinished([name for name in names if name not in needless])


def _needless(job: RunRequest, plan: Plan, records: Mapping[str, TrialRecord]) -> set[str]:
    results = {name: record.throughput for name, record in records.items()}
    full = {name for name, record in records.items() if record.phase is TrialPhase.full}
    return dropped(job.experiment.spec, plan, results, full)


def run(experiment: ScalingExperiment, source: str, bundle: Path, **options: Unpack[Options]) -> RunResult:
    """Run one experiment on this machine.

    Args:
        experiment: The experiment.
        source: Text of its file, which the bundle keeps.
        bundle: Folder of the bundle.
        **options: Fields of `scalecurve_local.session.Options`, such as `resume`.

    Returns:
        How the trials ended.

    Raises:
        InputError: for an experiment or a bundle that cannot be run here.
        UnavailableError: when devices or cores are missing or held.
        StorageError: when files cannot be read or written.
    """
    return run_in_turns([RunRequest(experiment, source, bundle)], **options)[0]


def run_in_turns(jobs: Sequence[RunRequest], **options: Unpack[Options]) -> list[RunResult]:
    """Run an experiment on this machine; of two, each trial of the first next to the second's of the same point.

    Raises:
        InputError: for an experiment or a bundle that cannot be run here, or two that do not make pairs (exit code 2).
        UnavailableError: when devices or cores are missing or held (3).
        StorageError: when files cannot be read or written (3).
    """
    resume, add_session = options.get("resume", False), options.get("add_session", False)
    add_points = options.get("add_points", False)
    prepared = [prepare(job, resume=resume, add_session=add_session, add_points=add_points) for job in jobs]
    for second in prepared[1:]:
        _refuse_unlike(prepared[0], second)
    return _run(prepared, options)


def _refuse_unlike(first: Prepared, second: Prepared) -> None:
    """Pairs need a partner each.

    Raises:
        InputError: when the two jobs have another number of trials, other points, or one bundle.
    """
    there, here = first.job, second.job
    if there.folder.path.resolve() == here.folder.path.resolve():
        raise InputError(f"{here.bundle}: is the bundle of both experiments; use another for the second")
    what = "they would not run in pairs"
    measures = [job.experiment.spec.measure.wire() for job in (there, here)]
    before, after = ({name: each.get(name) for name in ("repetitions", "seed")} for each in measures)
    if difference := first_difference(before, after, "spec.measure"):
        raise InputError(f"{here.bundle}: {what}: {difference}")
    if there.experiment.spec.measure.precision or here.experiment.spec.measure.precision:
        raise InputError(f"{here.bundle}: {what}: spec.measure.precision ends each experiment at a time of its own")
    if any(job.experiment.spec.scaling.batch.ladder for job in (there, here)):
        raise InputError(f"{here.bundle}: {what}: spec.scaling.batch.ladder ends each experiment at a batch of its own")
    if first.session != second.session:
        raise InputError(
            f"{here.bundle}: {what}: {there.bundle} is at session {first.session + 1}, it {second.session + 1}"
        )
    names = [{point.name for point in prepared.plan.points} for prepared in (first, second)]
    for job, alone in ((there, names[0] - names[1]), (here, names[1] - names[0])):
        if alone:
            raise InputError(f"{here.bundle}: {what}: only {job.bundle} has {few(sorted(alone))}")


def _run(jobs: Sequence[Prepared], options: Options) -> list[RunResult]:
    stop, say = options.get("stop") or StopRequest(), options.get("report") or (lambda _: None)
    carrier = options.get("carrier") or ThisMachine(options)
    admitted = [tuple(_admit(carrier, each)) for each in jobs]
    notes = tuple(dict.fromkeys(note for each in admitted for note in each))
    total = sum(len(each.plan.trials) for each in jobs)

    def report_waiting(message: str) -> None:
        say(RunProgress(total, {}, message=message, notes=notes))

    with ExitStack() as held:
        try:
            with stop.paused():
                lock = held.enter_context(carrier.hold(report_waiting, lambda: stop.requested))
            begun = [_begin(each, lock) for each in jobs]
        except StopRequestedError:
            return [_result_before_start(each, stop, notes) for each in jobs]
        ledgers = [ledger for ledger, _ in begun]
        turns = turns_of(jobs[0].plan.trials, jobs[0].job.experiment.spec.measure.seed) if len(jobs) > 1 else []
        paired = _common_session_id(ledgers, jobs[0].session) if turns else None
        engines = [
            Engine(
                # Trials on one machine would disturb each other: parallelism is for clusters.
                each.job.experiment.spec.model_copy(update={"parallelism": 1}),
                each.plan,
                _order_trials(each.plan, [name for side, name in turns if side == index]),
                each.job.folder,
                ledgers[index],
                carrier,
                admitted[index],
                say,
                stop,
                paired,
                damage=begun[index][1],
            )
            for index, each in enumerate(jobs)
        ]
        return list(map(_add_sessions, jobs, _take_turns(engines, turns, say)))


def _admit(carrier: Carrier, prepared: Prepared) -> Sequence[str]:
    job, names = prepared.job, prepared.plan.trials.names if prepared.before else ()
    earlier = {name: record for name in names if (record := job.folder.published(name)) is not None}
    return carrier.admit(job.bundle, job.experiment.spec, prepared.plan.trials, earlier)


def turns_of(trials: Sequence[TrialSpec], seed: int) -> list[tuple[int, str]]:
    """Which of two experiments with these trials runs its trial of a name when.

    Pairs stay together, so that they meet the same machine; who goes first alternates between repetitions of a point.
    """
    order = []
    for trial in trials:
        begins = random.Random(f"turns/{seed}/{trial.point.name}").randrange(2)
        turn = (begins + trial.repetition) % 2
        order += [(turn, trial.name), (1 - turn, trial.name)]
    return order


def _begin(prepared: Prepared, lock: Callable[[Path], None]) -> tuple[LedgerFile, tuple[str, ...]]:
    """Lock the bundle and write what a new one begins with; its ledger, and what was put aside."""
    job, folder = prepared.job, prepared.job.folder
    notes: tuple[str, ...] = ()
    for _ in range(2):
        folder.prepare()
        lock(folder.lock_file)
        if (note := put_aside(folder.work)) is None:
            break
        notes = (note,)
    source = text_without_secrets(job.source, job.experiment)
    if prepared.before is not None:
        folder.grow(prepared.before, job.public, source)
    folder.begin(job.public, source, prepared.continues)
    if (sessions := folder.sessions(prepared.plan.points)) != prepared.sessions:
        raise InputError(f"{folder.path}: another run added session {sessions} meanwhile; check it first")
    return folder.open_ledger(make_plan(job.public).trials), notes


def _order_trials(plan: Plan, names: Sequence[str]) -> dict[str, TrialSpec]:
    """The trials by name, in the order of ``names`` or else of the plan."""
    trials = {trial.name: trial for trial in plan.trials}
    return {name: trials[name] for name in names or trials}


def _common_session_id(ledgers: Sequence[LedgerFile], session: int) -> str:
    """What names the common session: as the bundles have it, if it was interrupted."""
    begun = [entry for each in ledgers for entry in each.ledger.of(Event.session, Event.resumed)]
    names = (entry.paired for entry in begun if entry.session == session + 1 and entry.paired)
    return next(names, uuid.uuid4().hex)


def _take_turns(engines: Sequence[Engine], turns: Sequence[tuple[int, str]], say: Report) -> list[RunResult]:
    latest: dict[int, RunProgress] = {}

    def report(side: int, progress: RunProgress) -> None:
        latest[side] = progress
        say(joined(progress, [other for at, other in latest.items() if at != side]))

    for side, engine in enumerate(engines):
        engine.report = partial(report, side)
        engine.look()
    for side, name in turns:
        engines[side].advance(name)
    return [engine.finish(engine.advance()) for engine in engines]


def _result_before_start(prepared: Prepared, stop: StopRequest, notes: tuple[str, ...]) -> RunResult:
    """The result of a run that was stopped while it waited."""
    spec, folder, names = prepared.job.experiment.spec, prepared.job.folder, prepared.plan.trials.names
    records = {name: record for name in names if prepared.continues and (record := folder.published(name))}
    needless = _needless(prepared.job, prepared.plan, records)
    observed = {name: final(record, spec) for name, record in records.items()}
    status = decide(spec, [name for name in names if name not in needless], observed).status
    return _add_sessions(prepared, RunResult(folder.path, status, records, stop.times > 0, not stop.times, notes))


def _add_sessions(prepared: Prepared, result: RunResult) -> RunResult:
    sessions = prepared.job.folder.sessions(prepared.plan.points)
    return replace(result, sessions=sessions, begun=sessions == prepared.session + 1)
