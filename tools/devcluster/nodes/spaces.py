"""Namespaces that a process holds, and that end with it: whatever runs, is mounted or linked in them goes too.

A node is such a space. Its first process is `pause`; the kernel kills that one when its starter is gone, with it every
process of the process namespace, and then nothing keeps the mounts and interfaces. So even `kill -9` of a test leaves
no container running and nothing mounted.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.devcluster import toolchain
from tools.devcluster.components import Component, output
from tools.devcluster.nodes.machine import PRIVATE, SYSCTLS
from tools.devcluster.waiting import READY_S


class Space:
    """A network namespace; with `isolated`, also namespaces of mounts, processes and host name."""

    def __init__(self, name: str, logs: Path, isolated: bool = False) -> None:
        self.name, self.logs, self.isolated = name, logs, isolated
        pause = str(toolchain.binary("pause"))
        command = ["unshare", "--net", pause]
        if isolated:
            kinds = ["--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
            command = ["unshare", *kinds, "sh", "-ec", f"{_own(name)}exec {pause}"]
        self._holder = Component(f"{name}-space", command, logs / f"{name}-space.log", self._is_held)
        self.pid = 0
        """Of its first process."""

    def start(self) -> None:
        """Make it. Raises ComponentError, with what was said, where that is not allowed."""
        self._holder.start()
        self._holder.wait(READY_S)
        (self.logs / f"{self.name}-space.pid").write_text(str(self.pid))

    def _is_held(self) -> bool:
        pid = self._holder.pid
        if self.isolated:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if not children:
                return False
            pid = int(children[0])
        self.pid = pid
        return Path(f"/proc/{pid}/comm").read_text().strip() == "pause"

    def entering(self) -> list[str]:
        """What to put before a command that is to run in it."""
        return entering(self.pid, self.isolated)

    def component(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> Component:
        """A component of that name, not started yet, that runs in it and is as good as its process."""
        return Component(name, [*self.entering(), *command], self.logs / f"{name}.log", None, environment)

    def run(self, *command: str | Path, text: str | None = None) -> str:
        """Output of a command in it. Raises CommandFailed."""
        return output(*self.entering(), *command, text=text)

    def end(self) -> None:
        """End everything in it, and wait until that is gone. May be called again."""
        if self.isolated and self.pid and self._holder.alive:
            # Its starter ends once the first process has, and that one only after every other.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._holder.join(READY_S)
        self._holder.kill()


def _own(name: str) -> str:
    """Shell lines that give a space its name, folders, and settings of the kernel that nobody has to change."""
    lines = [f"echo {name} > /proc/sys/kernel/hostname"]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in PRIVATE]
    for setting, value in SYSCTLS.items():
        file = f"/run/{setting.replace('/', '.')}"
        lines += [f"echo {value} > {file}", f"[ ! -e /proc/sys/{setting} ] || mount --bind {file} /proc/sys/{setting}"]
    return "".join(f"{line}\n" for line in lines)


def entering(pid: int, isolated: bool) -> list[str]:
    """What to put before a command that is to run in the namespaces of a process."""
    more = ["--mount", "--pid", "--uts"] if isolated else []
    return ["nsenter", f"--target={pid}", "--net", *more, "--"]
