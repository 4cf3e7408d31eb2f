"""The real ``scalecurve`` command in processes of its own, as a person types it."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from scalecurve.cli import main
from tests.waiting import PATIENCE_S, eventually

SCALECURVE = Path(sys.executable).with_name("scalecurve")
# Tests started in the background by a shell are told to ignore Ctrl-C, and so would be what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
STEPS = Path(__file__).parent / "programs" / "steps.py"
HINT = re.compile(r"(?:resume|continue) with: (scalecurve .*)")
EXIT_CODES = {0, 1, 2, 3, 130}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    words: str
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, when it is one JSON document."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, str]]:
        """stdout, when it is one rectangular CSV table."""
        header, *rows = csv.reader(io.StringIO(self.out))
        assert all(len(row) == len(header) for row in rows), f"not rectangular: {self.out}"
        return [dict(zip(header, row, strict=True)) for row in rows]


class Desk:
    """A folder to work in, and the command."""

    def __init__(self, folder: Path, locks: Path) -> None:
        self.folder = folder
        self.begun: list[subprocess.Popen[str]] = []
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CUDA_VISIBLE_DEVICES")
        } | {"SCALECURVE_LOCKS": str(locks)}

    def __call__(self, *words: str | Path, code: int | None = None, **options: Any) -> Ran:
        """Run to the end. Whatever it was given: a documented exit code, no traceback, no control characters."""
        ran = self.end(self.begin(*words, **options))
        assert code is None or ran.code == code, f"{ran}"
        return ran

    def here(self, *words: str | Path, code: int | None = None) -> Ran:
        """The same in this process, where what it imports is loaded already: unless the process is what is tested."""
        out, err = io.StringIO(), io.StringIO()
        locks = patch.dict(os.environ, SCALECURVE_LOCKS=self.environment["SCALECURVE_LOCKS"])
        with locks, redirect_stdout(out), redirect_stderr(err), chdir(self.folder), pytest.raises(SystemExit) as ended:
            main(list(map(str, words)))
        ended_with = ended.value.code
        assert isinstance(ended_with, int)
        ran = Ran(str(words), ended_with, out.getvalue(), err.getvalue())
        check(ran)
        assert code is None or ran.code == code, f"{ran}"
        return ran

    def begin(
        self, *words: str | Path, environment: dict[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start it."""
        settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder}
        process = subprocess.Popen(
            [str(SCALECURVE), *map(str, words)],
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            env={**self.environment, **(environment or {})},
            **{**settings, **options},
        )
        self.begun.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Ran:
        """Wait for it."""
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        ran = Ran(str(process.args), process.returncode, out, err)
        check(ran)
        return ran

    def hold(self, **spec: Any) -> Path:
        """An experiment that takes long until ``let_go``, and then is quick."""
        (self.folder / "hold").touch()
        return self.write("held.yaml", "--hold", str(self.folder / "hold"), **spec)

    def let_go(self) -> None:
        """Let every program finish."""
        (self.folder / "hold").unlink()

    def stepping(self) -> bool:
        """Whether the trial that runs has written steps."""
        return any(path.stat().st_size > 64 for path in self.folder.glob("**/rank-0.steps"))

    def write(self, file: str = "experiment.yaml", *program: str, **spec: Any) -> Path:
        """An experiment of the light program on one and two cores; ``spec`` replaces fields."""
        workload = {"program": "custom", "device": "cpu", "command": ["python", str(STEPS), *program]}
        measure = {"warmupSteps": 3, "maxWarmupSteps": 6, "windows": 2, "stepsPerWindow": 10, "repetitions": 1}
        tree = {
            "apiVersion": "scalecurve.dev/v1alpha1",
            "kind": "ScalingExperiment",
            "metadata": {"name": spec.pop("name", "desk")},
            "spec": {
                "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"global": 8, "perWorker": 4}},
                "workload": workload,
                "measure": {**measure, "maxForeignLoad": 1.0, **spec.pop("measure", {})},
                **spec,
            },
        }
        path = self.folder / file
        path.write_text(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
        return path


def check(ran: Ran) -> None:
    """What holds for every command."""
    assert "Traceback" not in ran.out + ran.err, f"{ran.words}:\n{ran.err}"
    assert ran.code in EXIT_CODES, f"{ran}"
    assert not CONTROL.search(ran.out + ran.err), f"{ran}"


def busy(ran: Ran) -> bool:
    """Whether other load on this machine made a trial invalid, which it may do to any that has no overlay."""
    return "NoisyNeighbor" in ran.out + ran.err


class Terminal:
    """A command in a terminal of its own; what it shows gathers in ``seen``."""

    def __init__(self, desk: Desk, *words: str | Path, columns: int = 120, kind: str = "xterm-256color") -> None:
        self.seen = b""
        environment = {**desk.environment, "TERM": kind}
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            # Nothing of Python's may run in the child but these: it was forked from a test.
            os.chdir(desk.folder)
            ioctl(0, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execve(SCALECURVE, [str(SCALECURVE), *map(str, words)], environment)

    def read(self, until: Callable[[str], Any]) -> str:
        """Everything shown so far, once that satisfies ``until`` or the command has ended."""
        eventually(lambda: until(self.text) or self.ended(), "what the terminal is to show", log=lambda: self.text)
        return self.text

    def ended(self) -> bool:
        """Take what is shown by now; whether that was the last."""
        while select.select([self.descriptor], [], [], 0)[0]:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:  # EIO: the last process has closed its end
                return True
            if not data:
                return True
            self.seen += data
        return False

    @property
    def text(self) -> str:
        return self.seen.decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def close(self) -> None:
        """As when the window is closed: the terminal hangs up."""
        os.close(self.descriptor)

    def wait(self) -> int:
        """Show the rest; the exit code, negative after a signal."""
        self.read(lambda _: False)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.descriptor)
        assert "Traceback" not in self.text
        return code


@pytest.fixture(scope="session")
def locks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests run beside each other: nobody else's runs meet these."""
    return tmp_path_factory.mktemp("locks")


@pytest.fixture
def desk(tmp_path: Path, locks: Path) -> Iterator[Desk]:
    """A new folder, of which no process may be left at the end."""
    desk = Desk(tmp_path, locks)
    yield desk
    for process in desk.begun:
        if process.poll() is None:  # after a failed test
            process.terminate()
            process.communicate()
    try:
        none_left(tmp_path)
    finally:
        for pid in processes_of(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def none_left(folder: Path) -> None:
    """Wait until no process names ``folder``: the kernel takes its time to be done with one that was killed."""
    eventually(
        lambda: not processes_of(folder), f"the end of all processes of {folder}", log=lambda: f"{processes_of(folder)}"
    )


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory, locks: Path) -> Path:
    """A finished bundle that all tests read and none changes: weak, one and two workers, twice each."""
    desk = Desk(tmp_path_factory.mktemp("finished"), locks)
    file = desk.write("finished.yaml", "--rows", measure={"repetitions": 2}, name="finished")
    desk("run", file, "--bundle", "bundle", code=0)
    return desk.folder / "bundle"


def processes_of(folder: Path) -> dict[int, str]:
    """Living processes but this one that name ``folder`` in their environment or command line."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
                if str(folder).encode() in text and state not in (b"Z", b"X"):
                    found[int(entry.name)] = (entry / "comm").read_text().strip()
            except OSError:
                continue
    return found
