"""A running trial: start its supervisor, send it a stop, say how it ended."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from scalecurve_api import contract
from scalecurve_api.model import canonical_json
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local import durable
from scalecurve_local.attempt import EXIT_FILE, LOGS, ORDER_FILE, AttemptFolder, ExitReport, StartReport
from scalecurve_local.devices.cores import oom_counters
from scalecurve_local.devices.shares import Share
from scalecurve_local.ending import end_of_log
from scalecurve_local.errors import EngineError, StorageError, UnavailableError
from scalecurve_local.execution.commands import Command, commands
from scalecurve_local.execution.environment import trial_environment
from scalecurve_local.execution.forking.client import ForkedSupervisor, ForkServer, ForkServerError
from scalecurve_local.supervision import supervisor
from scalecurve_local.supervision.orphans import end_marked, new_id, remove_temporary, temporary_of

GRACE_S = 3.0
_LOG = "supervisor.log"
_LEAST_BYTES = 64 << 10  # with less free disk space than this a message may not be written


def reserve_port() -> socket.socket:
    """Bind a free loopback port with SO_REUSEADDR, without listening.

    The kernel does not hand it out as an ephemeral port, and lets a server bind it that sets SO_REUSEADDR too, as
    torch's and Python's do.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


class Order(StartReport):
    """The supervisor's input. Variables beyond a command's own are passed by inheritance and never written to disk."""

    commands: list[Command]
    cwd: str
    deadline_seconds: float
    grace_seconds: float
    exit_file: str
    temporary: str
    oom_counters: list[str]


class RunningTrial:
    """One attempt whose supervisor this engine started."""

    def __init__(
        self,
        trial: TrialSpec,
        attempt: AttemptFolder,
        share: Share,
        locks: Sequence[int],
        metrics_port: int | None,
        hide_gpus: bool,
        paired: str | None,
        fork_server: ForkServer | None = None,
    ) -> None:
        """Write the order and start the supervisor.

        Raises:
            StorageError: when the attempt's files cannot be written.
            UnavailableError: when no process can be started, or the launcher is missing.
        """
        self.trial, self.attempt, self.id = trial, attempt, new_id()
        trial_file = attempt.folder / contract.TRIAL_FILE
        durable.write_file(trial_file, canonical_json(trial.wire()).encode())
        durable.make_folder(attempt.folder / LOGS)
        if fork_server is not None and not fork_server.suits(trial, share):
            fork_server = None
        attempt.note(self._order(share, paired, fork_server is not None))
        temporary = temporary_of(self.id)
        with durable.storing("create a temporary folder", temporary):
            temporary.mkdir(mode=0o700)
        self.port = reserve_port()
        master_port: int = self.port.getsockname()[1]
        environment = trial_environment(
            os.environ, trial_file.path, attempt.folder.path, share, temporary, master_port, metrics_port, hide_gpus
        )
        try:
            self.process = _start(attempt, environment, [*locks, self.port.fileno()], fork_server)
        except EngineError:
            self.port.close()
            remove_temporary(self.id)
            raise
        self.mark = supervisor.identity(self.process.pid)
        # A pidfd becomes readable when its process ends (pidfd_open(2)): no polling, no SIGCHLD handler.
        self.pidfd = os.pidfd_open(self.process.pid)

    def _order(self, share: Share, paired: str | None, forked: bool) -> Order:
        with durable.storing("find the current folder", Path()):
            cwd = str(Path.cwd())
        return Order(
            id=self.id,
            commands=commands(self.trial, self.attempt, forked),
            cwd=cwd,
            deadline_seconds=self.trial.deadline_seconds,
            grace_seconds=GRACE_S,
            exit_file=str(self.attempt.folder / EXIT_FILE),
            temporary=str(temporary_of(self.id)),
            oom_counters=oom_counters(),
            begun_ns=time.time_ns(),
            devices=share.devices,
            oversubscribed=share.oversubscribed,
            paired=paired,
            forked=forked,
        )

    def send(self, word: bytes) -> None:
        """Send ``supervisor.STOP`` or ``KILL``; no effect once it has ended."""
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):  # ValueError: the pipe is closed once the supervisor has ended
            self.process.stdin.write(word)

    def end(self) -> int:
        """Close the pipe, which ends the supervisor, and wait for its exit code; a signal is a negative number."""
        self._close()
        return self.process.wait()

    def report(self) -> None:
        """See that the report of a supervisor that has ended is on disk.

        Raises:
            StorageError: when it could not write its report.
        """
        status = self.end()
        if self.attempt.exit is None:
            self._report_lost(status)

    def _close(self) -> None:
        self.port.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def _report_lost(self, status: int) -> None:
        end_marked(lambda mark: mark == self.mark)
        started = self.attempt.started
        remove_temporary(self.id)
        lines = end_of_log(self.attempt.folder / _LOG).strip().splitlines()
        why = lines[-1] if lines else _silent(self.attempt.folder.path, status)
        if status > 0:
            raise StorageError(f"the supervisor of trial {self.trial.name} failed: {why}; continue with --resume")
        report = ExitReport(
            cause="supervisor-lost",
            message=f"the supervisor was killed by signal {-status}",
            started_ns=started.begun_ns if started else time.time_ns(),
            ended_ns=time.time_ns(),
        )
        self.attempt.note(report)


def _silent(folder: Path, status: int) -> str:
    """Why a supervisor ended without a message: usually because the disk is full."""
    with suppress(OSError):
        left = shutil.disk_usage(folder).free
        if left < _LEAST_BYTES:
            return f"no space left on the disk of {folder} ({left:,} bytes)"
    return f"ended with status {status}"


def _start(
    attempt: AttemptFolder, environment: Mapping[str, str], descriptors: Sequence[int], fork_server: ForkServer | None
) -> subprocess.Popen[bytes] | ForkedSupervisor:
    order = str(attempt.folder / ORDER_FILE)
    argv = [sys.executable, "-I", "-S", "-E", str(Path(supervisor.__file__)), order]
    with durable.storing("open", attempt.folder / _LOG):
        log = os.fdopen((attempt.folder / _LOG).descriptor(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
    with log:
        if fork_server is not None:
            with suppress(ForkServerError):
                return fork_server.start(order, environment, log.fileno(), descriptors)
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=dict(environment),
                cwd=os.sep,
                pass_fds=descriptors,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise UnavailableError(f"cannot start a process ({error.strerror}); continue with --resume") from error
