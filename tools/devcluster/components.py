"""Commands that are waited for, and processes that end with the one that started them; both say why they failed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.devcluster import ROOT

# A parent-death signal is tied to the starting *thread*, so one that lives as long as the process starts them all.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="component-starter")
_PAUSE_S = 0.02


class CommandFailed(subprocess.CalledProcessError):
    """A command that failed, with what it said."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{(self.stderr or '').strip()}"


def output(*command: str | Path, text: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints, given `text` on its standard input. Raises CommandFailed."""
    whole = [str(part) for part in command]
    more = {**os.environ, **(environment or {})}
    done = subprocess.run(whole, input=text, capture_output=True, text=True, env=more, check=False)
    if done.returncode:
        raise CommandFailed(done.returncode, whole, done.stdout, done.stderr)
    return done.stdout


class ComponentError(RuntimeError):
    """A component ended or never became ready; the message ends with the last lines of its log."""


class Component:
    """One process in a session of its own, with a log file, that the kernel kills when its starter is gone.

    It is ready when it says so, or as soon as it runs.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        ready: Callable[[], bool] | None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._ready = ready
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id. Raises ComponentError when it was never started."""
        if self._process is None:
            raise ComponentError(f"{self.name} was not started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and return at once. Without preexec_fn: Python warns of a fork beside threads."""
        with self.log.open("ab") as log:
            self._process = _STARTER.submit(
                subprocess.Popen,
                ["setpriv", "--pdeathsig", "KILL", "--", *self.command],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=self._environment, start_new_session=True,
            ).result()  # fmt: skip

    def wait(self, timeout_s: float) -> None:
        """Return once it is ready. Raises ComponentError when it ends before, or is not ready in time."""
        deadline = time.monotonic() + timeout_s
        while not self._is_ready():
            if not self.alive:
                code = None if self._process is None else self._process.returncode
                raise ComponentError(f"{self.name} exited with {code} before it was ready\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise ComponentError(f"{self.name} was not ready after {timeout_s:g} s\n{self.last_lines()}")
            time.sleep(_PAUSE_S)

    def _is_ready(self) -> bool:
        try:
            return self._ready() if self._ready else self.alive
        except OSError:
            return False

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended by itself. Raises subprocess.TimeoutExpired when it has not in time."""
        if self._process is not None:
            self._process.wait(timeout_s)

    def kill(self) -> None:
        """Kill its whole session and wait until it is gone."""
        if self._process is None:
            return
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_lines(self, count: int = 20) -> str:
        """The end of its log."""
        if not self.log.exists():
            return f"{self.log}: no output"
        lines = self.log.read_text(errors="replace").splitlines()[-count:]
        return "\n".join([f"last lines of {self.log}:", *(line[:500] for line in lines)])
