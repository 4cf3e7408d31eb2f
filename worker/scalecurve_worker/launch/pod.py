"""``python -m scalecurve_worker.launch.pod``: the entry point of a trial's pod, for every job kind.

Starts this pod's share of the workers (or mpirun, in an MPI launcher), passes their output on, and at the end leaves
the termination message: digest and summary of the record that went through this pod's log, and what failed ranks said.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from scalecurve_api.contract import ATTEMPT_ENV, HOSTFILE_ENV, OUT_ENV, TERMINATION_ENV, TRIAL_ENV
from scalecurve_api.model import canonical_json
from scalecurve_api.programs.tensorflow import CHIEF
from scalecurve_api.record.assemble import combine_windows, summarize
from scalecurve_api.record.envelope import EnvelopeError, digest, unseal
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.record.termination import Termination, spell
from scalecurve_api.spec.trial import FailedReason, TrialSpec
from scalecurve_worker.launch.commands import DEFAULT_HOSTFILE, PodProcess, commands
from scalecurve_worker.launch.init_process import oom_kills
from scalecurve_worker.launch.mpirun_log_parser import lost_ranks
from scalecurve_worker.launch.output_tee import OutputTee
from scalecurve_worker.launch.pod_role import PodKind, PodRole, PodRoleError, find_pod_role
from scalecurve_worker.launch.sshd import DEFAULT_TERMINATION_LOG, ssh_port, wait_for_workers
from scalecurve_worker.process.failure import FAILURE_MARK, WorkloadError
from scalecurve_worker.process.preflight import (
    PreflightError,
    check_hostfile,
    check_port,
    check_user,
    shared_memory,
)
from scalecurve_worker.process.trial_spec import read_trial
from scalecurve_worker.record.publish import number

_GRACE_S = 5
"""Between a failed rank of this pod and the end of its others by force."""
_DRAIN_S = 10
_SETTLE_S = 2.0
"""After a launcher failed: what ended the pods of its workers, they say themselves, and its end is the job's."""


def main() -> int:
    """Run this pod's part to its end; its exit code, or 1 after saying why it could not begin."""
    trial: TrialSpec | None = None
    try:
        trial = read_trial()
        if trial is None:
            raise WorkloadError("SCALECURVE_TRIAL is not set: it holds the trial's JSON")
        attempt = number(ATTEMPT_ENV, 1)
        role = find_pod_role(trial, os.environ)
        hostfile = Path(os.environ.get(HOSTFILE_ENV) or DEFAULT_HOSTFILE)
        _preflight(role, hostfile)
        # As a whole: what was sent lacks all that has its default, and a user's own script may read it.
        environment = {**os.environ, OUT_ENV: _out(trial, attempt), TRIAL_ENV: canonical_json(trial.wire())}
        started = commands(trial, role, environment, _mpirun(role))
    except (WorkloadError, PodRoleError, PreflightError) as error:
        _log(str(error))
        reason = FailedReason.start_failed if isinstance(error, PreflightError) else FailedReason.bad_workload
        failure = RankFailure(rank=0, reason=reason.value, message=str(error)[:1000])
        _write_termination(Termination(trial=trial.name if trial else "", attempt=1, failures=[failure]))
        return 1
    killed = oom_kills()
    if role.kind is PodKind.launcher:
        wait_for_workers(hostfile, ssh_port(os.environ))
    elif message := shared_memory():
        _log(message)
    processes = PodProcesses(started)
    codes = processes.wait()
    failures = _failures(Path(environment[OUT_ENV]), processes.marked)
    if role.kind is PodKind.launcher:
        codes = _add_lost_ranks(processes.tail, role, failures, codes)
    if any(codes) and oom_kills() > killed:
        message = "the kernel killed a process of this pod for exceeding the pod's memory limit"
        rank = role.index * role.workers
        failures.insert(0, RankFailure(rank=rank, reason=FailedReason.out_of_memory.value, message=message))
    _write_termination(_termination_of(trial, attempt, processes.marked, failures, codes, role))
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


def _preflight(role: PodRole, hostfile: Path) -> None:
    if role.kind is PodKind.launcher:
        check_user("ssh")
        check_hostfile(hostfile, role.pods * role.workers)
    if role.kind is PodKind.workers and role.index == 0 and role.pods > 1:
        check_port(role.port, "where the workers meet")


def _add_lost_ranks(lines: Iterable[str], role: PodRole, failures: list[RankFailure], codes: list[int]) -> list[int]:
    """Exit codes, after what mpirun said of ranks and pods that it lost has been added to ``failures``."""
    lost = lost_ranks(lines, role.workers)
    # What ranks could still say themselves came before mpirun noticed.
    failures.extend(lost)
    if lost and not any(codes):
        _log("mpirun exited with code 0 although it lost part of its job")
        codes = [1]
    if any(codes):
        time.sleep(_SETTLE_S)
    return codes


class PodProcesses:
    """The processes of this pod, from their start to the end of the last."""

    def __init__(self, started: Sequence[PodProcess]) -> None:
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._copies: list[OutputTee] = []
        # The kubelet tells this process alone; it waits for its children, and the kubelet's grace is their deadline.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._forward)
        signal.signal(signal.SIGALRM, self._force)
        for command in started:
            self._start(command)

    @property
    def marked(self) -> list[str]:
        return [line for copy in self._copies for line in copy.marked]

    @property
    def tail(self) -> list[str]:
        """The last lines that its processes printed, what went to stderr behind what went to stdout."""
        return [line for copy in self._copies for line in copy.tail]

    def wait(self) -> list[int]:
        """Exit codes, negative for signals, in the order of the commands; after one fails the others are ended."""
        while self._running:
            # Orphans of a container come to its first process, which has to reap them.
            pid, status = os.wait()
            process = self._running.pop(pid, None)
            if process is None:
                continue
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode and self._running:
                self._forward(signal.SIGTERM, None)
                signal.alarm(_GRACE_S)
        signal.alarm(0)
        for copy in self._copies:
            copy.join(_DRAIN_S)
        return [process.returncode for process in self._processes]

    def _start(self, command: PodProcess) -> None:
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        try:
            process = subprocess.Popen(
                command.argv, env=command.env, stdin=subprocess.DEVNULL, stdout=out_end, stderr=err_end
            )
        finally:
            os.close(out_end)
            os.close(err_end)
        self._processes.append(process)
        self._running[process.pid] = process
        for copy in (OutputTee(out, 1), OutputTee(err, 2)):
            copy.start()
            self._copies.append(copy)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        for pid in list(self._running):
            os.kill(pid, number)

    def _force(self, number: int, frame: FrameType | None) -> None:
        for pid in list(self._running):
            os.kill(pid, signal.SIGKILL)


def _out(trial: TrialSpec, attempt: int) -> str:
    """The folder of rank files: the same name in every pod, for mpirun gives all ranks one environment."""
    folder = os.environ.get(OUT_ENV, "").strip()
    return folder or str(Path(tempfile.gettempdir(), "scalecurve", f"{trial.name}-a{attempt}"))


def _mpirun(role: PodRole) -> str:
    if role.kind is not PodKind.launcher:
        return ""
    beside = Path(sys.executable).with_name("mpirun")
    path = str(beside) if beside.exists() else shutil.which("mpirun")
    if path is None:
        raise WorkloadError("workload.launcher: the launcher of an MPIJob needs mpirun, which this image lacks")
    if shutil.which("ssh") is None:
        raise WorkloadError("workload.launcher: mpirun reaches workers through ssh, which this image lacks")
    return path


def _termination_of(
    trial: TrialSpec,
    attempt: int,
    marked: Iterable[str],
    failures: list[RankFailure],
    codes: Sequence[int],
    role: PodRole,
) -> Termination:
    first = role.index * role.workers
    names = [f"rank-{first + at}" for at in range(len(codes))] if len(codes) > 1 else ["pod"]
    termination = Termination(
        trial=trial.name,
        attempt=attempt,
        failures=failures[:8],
        exit_codes={name: code for name, code in zip(names, codes, strict=True) if code},
    )
    try:
        payload = unframe(marked)
        envelope = unseal(payload)
    except EnvelopeError as error:
        # Where there is a chief, the record is in its log.
        first_worker = role.kind is PodKind.workers and role.index == 0 and not trial.workload.roles
        if role.kind is PodKind.launcher or role.task == CHIEF or first_worker:
            _log(str(error))
        return termination
    ranks = [envelope.ranks[rank] for rank in sorted(envelope.ranks)]
    summary = summarize(trial, ranks, combine_windows(ranks), envelope.journals)
    return termination.model_copy(update={"sha256": digest(payload), "bytes": len(payload), "summary": summary})


def _failures(out: Path, marked: Iterable[str]) -> list[RankFailure]:
    """The first word of each failed rank: from its file in this pod, or through mpirun from another."""
    failures: dict[int, RankFailure] = {}
    files = sorted(out.glob("rank-*.failure.json"), key=lambda path: path.stat().st_mtime_ns)
    texts = [line.partition(FAILURE_MARK)[2] for line in marked if FAILURE_MARK in line]
    for text in [*(path.read_text() for path in files), *texts]:
        try:
            failure = RankFailure.model_validate_json(text)
        except ValidationError:
            continue
        failures.setdefault(failure.rank, failure)
    return list(failures.values())


def _write_termination(termination: Termination) -> None:
    path = os.environ.get(TERMINATION_ENV, "").strip() or DEFAULT_TERMINATION_LOG
    try:
        Path(path).write_text(spell(termination))
    except OSError as error:
        _log(f"no termination message: {path}: {error.strerror}")


def _log(line: str) -> None:
    print(f"scalecurve: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
