"""Experiments of a light custom program, and the engine run on them in this process or in one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import scalecurve_local
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_local.devices.locks import LOCKS_ENV
from scalecurve_local.supervision.supervisor import stat_of
from tests.waiting import eventually

PROGRAMS = Path(__file__).parent / "programs"
LIGHT = PROGRAMS / "light.py"
DRIVE = PROGRAMS / "drive.py"


@pytest.fixture(autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run beside each other: only those that mean to meet share a folder of locks."""
    monkeypatch.setenv(LOCKS_ENV, str(tmp_path_factory.mktemp("locks")))


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """After every test no process is left whose environment or command line names the test's folder."""
    yield
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


def living(pid: int) -> bool:
    """Whether a process runs; one that is dead and not collected does not."""
    stat = stat_of(pid)
    return stat is not None and stat[1] not in "ZX"


class Lab:
    """One experiment in one folder, and ways to run it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bundle, self.file = folder, folder / "bundle", folder / "experiment.yaml"
        self.ledger = folder / "ledger"
        self.started: list[subprocess.Popen[str]] = []

    def write(self, *do: str, step_ms: float = 1.0, **spec: Any) -> ScalingExperiment:
        """An experiment of the light program; ``spec`` replaces fields, and ``do`` says how it misbehaves."""
        command = [sys.executable, str(LIGHT), "--step-ms", str(step_ms), "--ledger", str(self.ledger)]
        command += [word for what in do for word in ("--do", what)]
        workload = {"program": "custom", "device": "cpu", "command": command} | spec.pop("workload", {})
        if workload["program"] == "custom":
            workload.setdefault("instrument", "sdk")
        workload = {name: value for name, value in workload.items() if value is not None}
        tree = {
            "apiVersion": "scalecurve.dev/v1alpha1",
            "kind": "ScalingExperiment",
            "metadata": {"name": "lab"},
            "spec": {
                "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 4}},
                "workload": workload,
                "measure": {"warmupSteps": 3, "windows": 2, "stepsPerWindow": 10, "repetitions": 1},
                **spec,
            },
        }
        self.file.write_text(yaml.safe_dump(tree, sort_keys=False))
        # Rules over several fields are not the engine's: a single point is fine here.
        self.experiment = ScalingExperiment.model_validate(tree)
        return self.experiment

    def run(self, **options: Any) -> scalecurve_local.RunResult:
        """The engine in this process."""
        return scalecurve_local.run(self.experiment, self.file.read_text(), self.bundle, **options)

    def begin(self, *options: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """The engine in a process of its own."""
        process = subprocess.Popen(
            [sys.executable, str(DRIVE), str(self.file), str(self.bundle), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.started.append(process)
        return process

    def killed(self, once: Callable[[], bool], *options: str) -> None:
        """Begin, kill the engine at this moment, and wait for the end of what it had started."""
        engine = self.begin(*options)
        eventually(once, "the moment of the kill")
        engine.kill()
        engine.communicate()
        none_left(self.bundle)

    def events(self) -> int:
        """How many lines executions and the engine have noted: how far a run is, on a machine of any speed."""
        ledgers = [path for path in (self.ledger, self.bundle / "ledger.jsonl") if path.exists()]
        return sum(path.read_bytes().count(b"\n") for path in ledgers)

    def begin_and_reach(self, further: int, *options: str) -> subprocess.Popen[str]:
        """The engine in a process of its own, once so many further events were noted, or the run is over."""
        goal = self.events() + further
        engine = self.begin(*options)
        eventually(lambda: self.events() >= goal or engine.poll() is not None, f"event {goal}, or the end of the run")
        return engine

    def drive(self, *options: str, environment: dict[str, str] | None = None) -> tuple[int, dict[str, Any], str]:
        """The same to its end: exit code, ``{trial: [phase, reason, attempt]}``, what it said."""
        process = self.begin(*options, environment=environment)
        out, err = process.communicate(timeout=300)
        return process.returncode, json.loads(out) if out else {}, err

    def end(self) -> None:
        """Let nothing of a failed test hang about."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def record(self, trial: str) -> dict[str, Any]:
        """``trial.json`` of a published trial."""
        return dict(json.loads((self.bundle / "trials" / trial / "trial.json").read_text()))

    def published(self) -> list[str]:
        """Names of the trials that are in the bundle."""
        folder = self.bundle / "trials"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def notes(self) -> list[dict[str, Any]]:
        """The ledger: what executions noted, in order."""
        return [json.loads(line) for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []


@pytest.fixture
def new_lab() -> Iterator[Callable[[Path], Lab]]:
    """A maker of further labs in folders of their own."""
    made: list[Lab] = []

    def make(folder: Path) -> Lab:
        folder.mkdir(exist_ok=True)
        made.append(Lab(folder))
        return made[-1]

    yield make
    for lab in made:
        lab.end()


@pytest.fixture
def lab(tmp_path: Path, new_lab: Callable[[Path], Lab]) -> Lab:
    return new_lab(tmp_path)
