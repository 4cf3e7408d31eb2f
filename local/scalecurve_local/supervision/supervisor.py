"""Supervise one trial: start its commands, and end all its processes, whatever happens to the engine.

Runs as ``python -I -S -E supervisor.py ORDER`` with the standard library alone, so it starts in about 30 ms and
stays small. Standard input is a pipe from the engine: a byte is a request, end of file means that the engine is gone.
It is a child subreaper (``prctl(2)``): processes that double-fork, or whose launcher was killed, become its children.
It inherits the open files of device locks, so these are free only when it has ended, after everything else.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

STOP, KILL = b"S", b"K"
SUPERVISOR_ENV = "SCALECURVE_SUPERVISOR"
"""In every process of a trial: ``pid/start time/pid namespace`` of its supervisor, to find orphans."""

Execute = Callable[[str, list[str], dict[str, str]], NoReturn]
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STRAY_GRACE_S = 0.5
_SETTLE_S = 0.5


def stat_of(pid: int | str) -> tuple[int, str, int] | None:
    """(Parent, state letter, start time in clock ticks) of a process; None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command's name is in brackets and may contain any character: split after the last bracket.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[1]), fields[0].decode(), int(fields[19])) if len(fields) > 19 else None


def processes() -> dict[int, tuple[int, str, int]]:
    """Every process in /proc."""
    return {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := stat_of(name)) is not None}


def descendants(root: int) -> list[int]:
    """Running processes below ``root``, at any depth, without zombies."""
    table = processes()
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    running, queue = [], [root]
    while queue:
        for pid in children.get(queue.pop(), []):
            queue.append(pid)
            if table[pid][1] not in "ZX":
                running.append(pid)
    return running


def identity(pid: int) -> str:
    """A name for a process that no later one with the same PID shares (within one boot)."""
    stat = stat_of(pid)
    # In a container whose init does not reap, zombies stay forever: they do not count as running.
    start = stat[2] if stat and stat[1] not in "ZX" else 0
    return f"{pid}/{start}/{os.readlink('/proc/self/ns/pid')}"


def write_durably(path: str, text: str) -> None:
    """Write atomically and durably."""
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Supervisor:
    """The trial of this process."""

    def __init__(self, order: dict[str, Any], execute: Execute = os.execvpe) -> None:
        self.order, self.execute = order, execute
        self.pids: dict[int, int] = {}
        self.statuses: list[dict[str, int | None] | None] = [None] * len(order["commands"])
        self.cause: str | None = None
        self.message = ""
        self.interrupted: str | None = None
        self.kill = False
        self.strays = 0
        self.unkillable: list[int] = []
        self.killed: set[int] = set()
        self.engine_open = True
        self.wake = -1

    def run(self) -> None:
        self.prepare()
        started_ns, started = time.time_ns(), time.monotonic()
        before = self.oom_kills()
        self.listen(0)
        if self.interrupted is None:
            self.start()
        deadline = started + self.order["deadlineSeconds"]
        while self.cause is None and self.interrupted is None:
            self.listen(deadline - time.monotonic())
            if self.cause is None and time.monotonic() >= deadline:
                self.cause = "deadline"
        succeeded = self.cause == "ended" and all(s == {"code": 0, "signal": None} for s in self.statuses)
        ended_ns = time.time_ns()
        self.end_tree(_STRAY_GRACE_S if succeeded else self.order["graceSeconds"], succeeded)
        if self.cause == "ended" and not succeeded:
            self.settle()
        # A machine that shuts down signals every process at once: then the launcher's end is not the trial's failure.
        interrupted = self.interrupted is not None and not succeeded and self.cause != "deadline"
        after = self.oom_kills()
        report = {
            "cause": self.interrupted if interrupted else self.cause,
            "message": self.message,
            "statuses": self.statuses,
            "startedNs": started_ns,
            "endedNs": ended_ns,
            "strays": self.strays,
            "unkillable": self.unkillable,
            "killed": sorted(self.killed),
            "oomKills": None if before is None or after is None else after - before,
        }
        remove_tree(self.order["temporary"])
        write_durably(self.order["exitFile"], json.dumps(report))

    def prepare(self) -> None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):  # the listing's own descriptor is closed by now
                if descriptor > 2:
                    os.set_inheritable(descriptor, False)
        self.wake, wake_end = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_end, False)
        os.set_blocking(0, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.handle_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def handle_sigterm(self, *_: object) -> None:
        self.interrupted = self.interrupted or "stopped"

    def start(self) -> None:
        """Start every command; one that cannot be executed ends the trial."""
        marker = identity(os.getpid())
        for index, command in enumerate(self.order["commands"]):
            environment = {**os.environ, **command["env"], SUPERVISOR_ENV: marker}
            pid, problem = spawn(command["argv"], environment, command["log"], self.order["cwd"], self.execute)
            self.pids[pid] = index
            if problem:
                self.cause, self.message = "start-failed", problem
                return

    def listen(self, seconds: float) -> None:
        """Wait for a child's end, a request of the engine or a signal."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if self.engine_open:
            poll.register(0, select.POLLIN)
        # poll(2) takes milliseconds as a 32-bit number
        ready = dict(poll.poll(min(max(0, int(seconds * 1000) + 1), 1 << 30) if seconds > 0 else 0))
        if self.wake in ready:
            os.read(self.wake, 4096)
        if 0 in ready:
            self.receive(os.read(0, 64))
        self.reap()

    def receive(self, request: bytes) -> None:
        """Handle a request of the engine; an empty one is its death."""
        self.engine_open = bool(request)
        self.interrupted = self.interrupted or ("stopped" if request else "engine-gone")
        self.kill = self.kill or KILL in request

    def reap(self) -> None:
        """Reap children; the trial ends with its last command, or with the first that fails."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            index = self.pids.pop(pid, None)
            if index is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            self.statuses[index] = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}
            if self.cause is None and (code != 0 or not self.pids):
                self.cause = "ended"

    def end_tree(self, grace: float, succeeded: bool) -> None:
        """SIGTERM, a short grace period, then SIGKILL until no descendant is left."""
        self.reap()
        left = descendants(os.getpid())
        self.strays = len(left) if succeeded else 0
        send(left, signal.SIGTERM)
        until = time.monotonic() + grace
        while left and not self.kill and time.monotonic() < until:
            self.listen(min(0.02, until - time.monotonic()))
            left = descendants(os.getpid())
        wait = 0.002
        while left:
            self.killed.update(self.pids[pid] for pid in left if pid in self.pids)
            self.unkillable = send(left, signal.SIGKILL)
            if len(self.unkillable) == len(left):
                return
            time.sleep(wait)
            wait = min(wait * 2, 0.2)
            self.reap()
            left = descendants(os.getpid())
        self.unkillable = []
        self.reap()

    def settle(self) -> None:
        """Give a stop that was sent to every process the time to arrive here too."""
        until = time.monotonic() + _SETTLE_S
        while self.interrupted is None and (left := until - time.monotonic()) > 0:
            self.listen(left)

    def oom_kills(self) -> int | None:
        counts = [count for path in self.order["oomCounters"] if (count := read_counter(path)) is not None]
        return sum(counts) if counts else None


def read_counter(path: str) -> int | None:
    """The ``oom_kill`` line of a cgroup's memory events, or of /proc/vmstat."""
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        return None
    return None


def send(pids: list[int], number: signal.Signals) -> list[int]:
    """Signal processes; return those that this user may not signal."""
    refused = []
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused.append(pid)
    return refused


def spawn(
    argv: list[str], environment: dict[str, str], log: str, cwd: str, execute: Execute = os.execvpe
) -> tuple[int, str]:
    """Start a command in its own session; returns ``(pid, problem)``, the problem empty if it was executed.

    It gets SIGKILL if this process is killed (``PR_SET_PDEATHSIG`` survives execve).
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        become(argv, environment, log, cwd, parent, writer, execute)
    os.close(writer)
    with open(reader, "rb") as pipe:
        return pid, pipe.read().decode("utf-8", "replace")


def become(
    argv: list[str], environment: dict[str, str], log: str, cwd: str, parent: int, writer: int, execute: Execute
) -> NoReturn:
    """In the child: exec the command, or report why not and exit."""
    doing = argv[0]
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        doing = log
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        doing = cwd
        os.chdir(cwd)
        doing = argv[0]
        execute(argv[0], argv, environment)
    except OSError as error:
        os.write(writer, f"{doing}: {error.strerror}".encode())
    finally:
        os._exit(127)


def remove_tree(path: str) -> None:
    """Remove a folder and its contents as far as possible; importing shutil takes longer than this.

    A program may have made its temporary folder a link: that goes, and not what it points to.
    """
    if os.path.islink(path):
        return os.unlink(path)
    for folder, folders, files in os.walk(path, topdown=False):
        for name in [*files, *folders]:
            inner = os.path.join(folder, name)
            with suppress(OSError):
                (os.rmdir if name in folders and not os.path.islink(inner) else os.unlink)(inner)
    with suppress(OSError):
        os.rmdir(path)


def prctl(option: int, value: int) -> None:
    """``prctl(2)``.

    Raises:
        OSError: when the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def supervise(path: str, execute: Execute = os.execvpe) -> int:
    """Run an order, each rank by ``execute``; a failure of the supervisor goes to standard error."""
    with open(path, encoding="utf-8") as file:
        order = json.load(file)
    supervisor = Supervisor(order, execute)
    try:
        supervisor.run()
    except OSError as error:
        supervisor.end_tree(0, False)
        print(f"supervisor: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(supervise(sys.argv[1]))
