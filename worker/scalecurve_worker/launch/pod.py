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

from scalecurve_api.contract import ATTEMPT_ENV, HOSTFILE_ENV, OUT_ENV, TRIAL_ENV, journal_file, rank_file
from scalecurve_api.model import canonical_json
from scalecurve_api.record.assemble import combine_windows, summarize
from scalecurve_api.record.envelope import EnvelopeError, digest, unseal
from scalecurve_api.record.journal import HEADER
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.record.termination import Termination, spell
from scalecurve_api.record.unfinished import unfinished
from scalecurve_api.spec.secrets import values_in
from scalecurve_api.spec.trial import FailedReason, TrialSpec
from scalecurve_worker.launch import ssh_keys
from scalecurve_worker.launch.commands import DEFAULT_HOSTFILE, PodProcess, commands
from scalecurve_worker.launch.init_process import leave_termination, log, oom_kills
from scalecurve_worker.launch.mpirun_log_parser import lost_ranks, nearest_cause_first
from scalecurve_worker.launch.output_tee import OutputTee
from scalecurve_worker.launch.pod_role import PodKind, PodRole, PodRoleError, find_pod_role
from scalecurve_worker.launch.sshd import ssh_port, wait_for_workers
from scalecurve_worker.process.failure import FAILURE_MARK, WorkloadError
from scalecurve_worker.process.preflight import PreflightError, check_hostfile, check_port, check_user, shared_memory
from scalecurve_worker.process.trial_spec import out_folder, read_trial
from scalecurve_worker.record.recorder import number

_GRACE_S = 5  # between a failed rank of this pod and the end of its others by force
_DRAIN_S = 10
# After a launcher failed: what ended the pods of its workers, they say themselves, and its end is the job's.
_SETTLE_S = 2.0


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
        if role.kind is PodKind.launcher:
            check_user("ssh")
            hostfile = _prepare_launcher(role, hostfile)
            check_hostfile(hostfile, role.pods * role.workers)
        elif role.kind is PodKind.workers and role.index == 0 and role.pods > 1:
            check_port(role.port, "where the workers meet")
        # The same name in every pod, for mpirun gives all ranks one environment.
        out = out_folder() or Path(tempfile.gettempdir(), "scalecurve", f"{trial.name}-a{attempt}")
        # As a whole: what was sent lacks all that has its default, and a user's own script may read it.
        environment = {**os.environ, OUT_ENV: str(out), TRIAL_ENV: canonical_json(trial.wire())}
        started = commands(trial, role, environment, _mpirun(role))
    except (WorkloadError, PodRoleError, PreflightError) as error:
        log(str(error))
        reason = FailedReason.start_failed if isinstance(error, PreflightError) else FailedReason.bad_workload
        failure = RankFailure(rank=0, reason=reason.value, message=str(error)[:1000])
        leave_termination(spell(Termination(trial=trial.name if trial else "", attempt=1, failures=[failure])))
        return 1
    if role.kind is PodKind.launcher:
        wait_for_workers(hostfile, ssh_port(os.environ))
    elif message := shared_memory():
        log(message)
    return _carry_out(trial, attempt, role, started, out)


def _carry_out(trial: TrialSpec, attempt: int, role: PodRole, started: Sequence[PodProcess], out: Path) -> int:
    """Run the processes to their end, and leave the termination message; the pod's exit code."""
    killed = oom_kills()
    processes = PodProcesses(started, values_in(os.environ, trial.workload))
    codes = processes.wait()
    failures = _failures(out, processes.marked)
    if role.kind is PodKind.launcher:
        codes = _add_lost_ranks(processes.tail, role, failures, codes)
    if any(codes) and oom_kills() > killed:
        message = "the kernel killed a process of this pod for exceeding the pod's memory limit"
        rank = role.index * role.workers
        failures.insert(0, RankFailure(rank=rank, reason=FailedReason.out_of_memory.value, message=message))
    ended = _termination_of(trial, attempt, processes.marked, failures, codes, role)
    missing = _missing(trial, role, out) if ended.sha256 is None and role.kind is PodKind.workers else None
    leave_termination(spell(ended.model_copy(update={"missing": missing})))
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


def _add_lost_ranks(lines: Iterable[str], role: PodRole, failures: list[RankFailure], codes: list[int]) -> list[int]:
    """Exit codes, after what mpirun said of ranks and pods that it lost has been added to ``failures``."""
    lost = lost_ranks(lines, role.workers)
    failures[:] = nearest_cause_first(failures, lost)
    if lost and not any(codes):
        log("mpirun exited with code 0 although it lost part of its job")
        codes = [1]
    if any(codes):
        time.sleep(_SETTLE_S)
    return codes


class PodProcesses:
    """The processes of this pod, from their start to the end of the last."""

    def __init__(self, started: Sequence[PodProcess], secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._copies: list[OutputTee] = []
        # The kubelet tells this process alone; it waits for its children, and the kubelet's grace is their deadline.
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(each, self._forward)
        for command in started:
            self._start(command)

    @property
    def marked(self) -> list[str]:
        return [line for copy in self._copies for line in copy.marked]

    @property
    def tail(self) -> list[str]:
        """The last lines that its processes printed, stderr's behind stdout's."""
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
        quiet = subprocess.DEVNULL
        try:
            process = subprocess.Popen(command.argv, env=command.env, stdin=quiet, stdout=out_end, stderr=err_end)
        finally:
            os.close(out_end)
            os.close(err_end)
        self._processes.append(process)
        self._running[process.pid] = process
        for copy in (OutputTee(out, 1, self._secrets), OutputTee(err, 2, self._secrets)):
            copy.start()
            self._copies.append(copy)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        for pid in list(self._running):
            os.kill(pid, signal.SIGKILL if number == signal.SIGALRM else number)


def _prepare_launcher(role: PodRole, hostfile: Path) -> Path:
    """Write what mpi-operator mounts, where it is not there to do so: host file and key; the host file's path."""
    if not role.hosts:
        return hostfile
    folder = Path(tempfile.mkdtemp(prefix="scalecurve-mpi-"))
    keys = ssh_keys.find(Path(ssh_keys.SSH_FOLDER), folder, os.environ)
    hostfile = folder / "hostfile"
    hostfile.write_text("".join(f"{host} slots={role.workers}\n" for host in role.hosts))
    os.environ.update({HOSTFILE_ENV: str(hostfile), ssh_keys.KEY_ENV: str(keys / "id_rsa")})
    return hostfile


def _mpirun(role: PodRole) -> str:
    if role.kind is not PodKind.launcher:
        return ""
    beside = Path(sys.executable).with_name("mpirun")
    path = str(beside) if beside.exists() else shutil.which("mpirun")
    if path is None:
        raise WorkloadError("workload.launcher: the launcher of an MPI job needs mpirun, which this image lacks")
    if shutil.which("ssh") is None:
        raise WorkloadError("workload.launcher: mpirun reaches workers through ssh, which this image lacks")
    return path


def _termination_of(
    trial: TrialSpec, attempt: int, marked: list[str], failures: list[RankFailure], codes: Sequence[int], role: PodRole
) -> Termination:
    first = role.index * role.workers
    names = [f"rank-{first + at}" for at in range(len(codes))] if len(codes) > 1 else ["pod"]
    failed: dict[str, int | None] = {name: code for name, code in zip(names, codes, strict=True) if code}
    termination = Termination(trial=trial.name, attempt=attempt, failures=failures[:8], exit_codes=failed)
    try:
        payload = unframe(marked)
        envelope = unseal(payload)
    except EnvelopeError as error:
        # The record is in the log of the first role that is no worker's, if there is one.
        roles = trial.workload.roles
        first_worker = role.kind is PodKind.workers and role.index == 0 and not roles
        if role.kind is PodKind.launcher or role.task in roles[:1] or first_worker:
            log(str(error))
        return termination
    ranks = [envelope.ranks[rank] for rank in sorted(envelope.ranks)]
    summary = summarize(trial, ranks, combine_windows(ranks), envelope.journals)
    return termination.model_copy(update={"sha256": digest(payload), "bytes": len(payload), "summary": summary})


def _missing(trial: TrialSpec, role: PodRole, out: Path) -> str | None:
    """What the ranks of this pod forgot to call; those of others are taken to have called all."""
    first = role.index * role.workers
    ranks = range(first, first + role.workers)
    elsewhere = set(range(trial.point.workers)) - set(ranks)
    journals = {rank: out / journal_file(rank) for rank in ranks}
    recorded = elsewhere | {rank for rank in ranks if (out / rank_file(rank)).exists()}
    found = {rank: path.read_bytes() for rank, path in journals.items() if path.exists()}
    return unfinished(trial, recorded, {rank: data for rank, data in found.items() if len(data) >= HEADER.size})


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


if __name__ == "__main__":
    sys.exit(main())
