"""One rank of a command that is measured by what it prints (``workload.instrument: log``).

This process starts the command (``reported_output``) and writes the rank's record. Only some ranks of a program print:
the lines of the one that reported most become the windows of every rank's record.
"""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePath
from types import FrameType
from typing import NoReturn

from scalecurve_api.contract import COORDINATOR_ENV, PODS_ENV, TRIAL_ENV, journal_file
from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.programs.log_format import LogFormat
from scalecurve_api.programs.workload import DeviceType
from scalecurve_api.record.rank import RankTopology, Warmup, Window, WindowKind
from scalecurve_api.spec.placeholders import fill, values_of
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.launch.reported_output import ReportedOutput
from scalecurve_worker.monitor.nvml import device_name, visible_uuid
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.process.startup import shares_of_cores
from scalecurve_worker.process.topology import topology
from scalecurve_worker.process.trial_spec import out_folder, read_trial
from scalecurve_worker.record.reported_steps import PlannedBatch, ReportedSteps, ReportedWindow
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.communicator import Communicator, SingleProcess
from scalecurve_worker.rendezvous.tcp import FolderCommunicator, TcpCommunicator

_PORT_OFFSET = 871
"""Of the ranks' own meeting from the port where the program's ranks meet, in trials of several pods."""


class Ended(BaseException):
    """This process was told to end, by signal ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_reported(command: Sequence[str]) -> int:
    """Run the command until enough is reported or it ends; the exit code of this rank.

    Raises:
        WorkloadError: no line is of the format, or a pattern takes too long over one.
        CommunicatorError: another rank was lost.
    """
    trial = read_trial()
    workload = trial.workload_as(CustomWorkload) if trial and trial.workload.words else None
    if trial is None or workload is None or workload.log is None:
        raise WorkloadError(f"{TRIAL_ENV}: workload.log is not set, and workload.instrument is log")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        session = Session(communicator=_meet(trial), topologies=_topologies(trial), world=trial.point.workers)
        steps = ReportedSteps(trial.measure, batch_of(trial, workload.log), workload.log.steps_per_line)
        output = ReportedOutput(command, workload.log, steps)
        try:
            output.watch(session.communicator, session.recorder)
        finally:
            output.end()
    except Ended as ended:
        _exit_like(-ended.number)
    if output.code and not output.ended_on_request:
        _exit_like(output.code)
    _finish(session, trial, workload.log, steps, output.seen)
    return 0


def batch_of(trial: TrialSpec, log: LogFormat) -> PlannedBatch:
    """Return the batch that is planned for a step of the trial.

    Raises:
        WorkloadError: tokensPerSample is a placeholder whose value is no whole number.
    """
    tokens = log.tokens_per_sample
    if isinstance(tokens, str):
        text = fill(tokens, values_of(trial))
        if not text.isdigit() or int(text) < 1:
            raise WorkloadError(f"workload.log.tokensPerSample: {tokens} is {text!r} at this point, not a whole number")
        tokens = int(text)
    return PlannedBatch(trial.point.workers, trial.point.global_batch, tokens, log.counts_tokens)


def _finish(session: Session, trial: TrialSpec, log: LogFormat, steps: ReportedSteps, lines: int) -> None:
    """Write the record of this rank, with the windows of the rank that has most."""
    mine = {
        "steps": steps.steps,
        "lines": steps.lines,
        "seen": lines,
        "how": steps.how,
        "windows": [asdict(window) for window in steps.windows],
        "warmup": steps.warmup.wire() if steps.warmup else None,
        "rate": steps.printed_rate,
        "loss": [steps.last_loss, steps.finite_loss],
    }
    reports = session.communicator.all_gather(mine)
    first = max(range(len(reports)), key=lambda rank: (reports[rank]["steps"], -rank))
    best = reports[first]
    if not best["lines"]:
        if session.identity.rank == 0:
            raise WorkloadError(_nothing(trial, log, sum(report["seen"] for report in reports)))
        return
    # Of one clock there is one journal: its samples are those of all workers.
    for worker in session.workers[session.identity.rank == first :]:
        worker.recorder.close()
        if session.out is not None:
            (session.out / journal_file(worker.topology.rank)).unlink(missing_ok=True)
    facts = session.facts
    facts.sample_unit = "tokens" if batch_of(trial, log).has_token_units else "samples"
    facts.warmup = Warmup.model_validate(best["warmup"]) if best["warmup"] else None
    facts.printed_rate = best["rate"]
    facts.last_loss, facts.finite_loss = best["loss"]
    facts.options = {"reportedTimes": best["how"]}
    complete = [ReportedWindow(**window) for window in best["windows"]]
    complete = [window for window in complete if window.steps == trial.measure.steps_per_window]
    facts.first_step_ns = complete[0].start_ns if complete else None
    shares = [_share(complete, worker.topology.rank, trial.point.workers) for worker in session.workers]
    session.finish([facts.model_copy(update={"windows": windows}) for windows in shares])


def _share(windows: Sequence[ReportedWindow], rank: int, workers: int) -> list[Window]:
    """The windows of one worker: the time of all, and its part of the samples."""
    return [
        Window(
            index=window.index,
            kind=WindowKind.train,
            open_ns=window.start_ns,
            wall_ns=window.wall_ns,
            first_step=window.first_step,
            steps=window.steps,
            samples=window.units // workers + (rank < window.units % workers),
        )
        for window in windows
    ]


def _nothing(trial: TrialSpec, log: LogFormat, lines: int) -> str:
    workload = trial.workload_as(CustomWorkload)
    scripts = [word for word in workload.words if word.endswith(".py")]
    program = PurePath(scripts[0] if scripts else workload.command[0]).name
    if not lines:
        return f"workload.log: {program} printed nothing"
    return f"workload.log: none of the {lines} lines that {program} printed is of {log.name}"


def _meet(trial: TrialSpec) -> Communicator:
    """The ranks' own group, beside whatever group the program makes."""
    identity = identify()
    if identity.world == 1:
        return SingleProcess()
    out = out_folder()
    if os.environ.get(PODS_ENV, "1") == "1" and out is not None:
        return FolderCommunicator(out, identity.rank, identity.world)
    meeting = os.environ.get(COORDINATOR_ENV, "")
    if "MASTER_ADDR" in os.environ:
        meeting = f"{os.environ['MASTER_ADDR']}:{os.environ.get('MASTER_PORT', '')}"
    host, _, port = meeting.rpartition(":")
    if not host or not port.isdigit():
        raise WorkloadError(
            f"workload.instrument: log in several pods needs {COORDINATOR_ENV}, or MASTER_ADDR and MASTER_PORT"
        )
    beside = int(port) + (_PORT_OFFSET if int(port) + _PORT_OFFSET < 1 << 16 else -_PORT_OFFSET)
    return TcpCommunicator(identity.rank, identity.world, host, beside, trial.name)


def _topologies(trial: TrialSpec) -> list[RankTopology]:
    """Where this process's workers run: one, or all of the node where the command starts them itself."""
    identity = identify()
    if not trial.workload.one_process:
        return [topology(identity, *_device(trial, identity.local_rank))]
    here, places = trial.point.workers // identity.world, []
    for at, cores in enumerate(shares_of_cores(here)):
        worker = RankIdentity(identity.rank * here + at, trial.point.workers, at)
        uuid, name = _device(trial, at)
        place = topology(worker, uuid or f"cpu:{','.join(map(str, cores))}", name)
        places.append(place.model_copy(update={"cores": cores}))
    return places


def _device(trial: TrialSpec, local_rank: int) -> tuple[str | None, str | None]:
    """UUID and name of a local rank's GPU; None on CPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if trial.workload.device is DeviceType.cpu or visible == "":
        return None, None
    uuid = visible_uuid(local_rank, visible)
    return uuid, device_name(uuid) if uuid else None


def _end(number: int, frame: FrameType | None) -> NoReturn:
    for again in (signal.SIGTERM, signal.SIGINT):
        signal.signal(again, signal.SIG_IGN)
    raise Ended(number)


def _exit_like(code: int) -> NoReturn:
    """End as the command did: the engine reads exit codes and signals."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code > 0 else 128 - code)
