"""Runs killed at random moments and resumed: is a trial ever lost, run twice, or a process left behind?

    python -m benchmarks.soak [--runs 200] [--ddp 20] [--seed 0] [--jobs 1] [--minutes N]

Every run is ``scalecurve run`` in a process of its own. It is killed at a random moment in one of five ways, and
resumed; half of the resumed ones are killed again, and so on, until one ends by itself. Of ten moments nine are drawn
evenly over the time in which an untouched run works on its trials, one over the start before that. ``--ddp`` of the
runs are real two-process DDP training under torchrun (tests/local/programs/ddp.py), the others a light program that
keeps the same contract (light.py). Each execution of a trial notes its beginning and, once its record is in place, its
end in a ledger that the engine knows nothing of. Then:

- lost: a planned trial without a record that says Succeeded;
- twice: a trial that was run again after an execution of it had been completed;
- orphan: a process of the run (by a mark in its environment) that outlives engine and grace, or the end of the run.

The exit code is 1 when any of them happened; the folder of such a run is kept and named. After ``--minutes`` no further
run begins, and the table counts those that ended.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "local" / "programs"
SCALECURVE = Path(sys.executable).with_name("scalecurve")
MARK = "SCALECURVE_SOAK"
WAYS = ("interrupt", "terminate", "kill engine", "kill engine and supervisor", "kill everything")
GONE_S = 15.0
ENOUGH = 30


@dataclass
class Kind:
    """One program: how its experiment is written, and how long an untouched run starts and works."""

    name: str
    workload: dict[str, Any]
    workers: list[int]
    measure: dict[str, Any]
    start_s: float = 0.0
    work_s: float = 0.0


@dataclass
class Found:
    """What one run showed."""

    kind: str
    folder: Path
    trials: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    executions: int = 0
    anew: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.twice or self.orphans or self.other)


def kinds() -> dict[str, Kind]:
    python, steps = (
        sys.executable,
        {"warmupSteps": 3, "maxWarmupSteps": 20, "windows": 2, "repetitions": 2, "maxForeignLoad": 1.0},
    )
    light = [python, str(PROGRAMS / "light.py"), "--step-ms", "12", "--ledger", "ledger"]
    ddp = [python, str(PROGRAMS / "ddp.py"), "ledger"]
    custom = {"program": "custom", "device": "cpu"}
    return {
        "light": Kind("light", {**custom, "command": light}, [1, 2], {**steps, "stepsPerWindow": 10, "repetitions": 3}),
        "ddp": Kind(
            "ddp",
            {**custom, "command": ddp, "launcher": "torchrun"},
            [2, 1],
            {**steps, "stepsPerWindow": 100, "repetitions": 1},
        ),
    }


def write(kind: Kind, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "tmp").mkdir()
    spec = {
        "scaling": {"modes": ["weak"], "workers": kind.workers, "batch": {"perWorker": 16}},
        "workload": kind.workload,
        "measure": kind.measure,
    }
    experiment = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": kind.name},
        "spec": spec,
    }
    # JSON is YAML.
    (folder / "experiment.yaml").write_text(json.dumps(experiment, indent=1))


def start(folder: Path, resume: bool) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        MARK: str(folder),
        "SCALECURVE_LOCKS": str(folder / "locks"),
        "TMPDIR": str(folder / "tmp"),
    }
    command = [str(SCALECURVE), "run", "experiment.yaml", "--bundle", "bundle", *(["--resume"] if resume else [])]
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=said, stderr=said, stdin=subprocess.DEVNULL
        )


def processes_of(folder: Path) -> dict[int, str]:
    """Living processes with this run's mark: pid -> command line."""
    mark, found = f"{MARK}={folder}\0".encode(), {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                marked = mark in (entry / "environ").read_bytes()
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
                words = (entry / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
            except OSError:
                continue
            if marked and state not in (b"Z", b"X"):
                found[int(entry.name)] = words
    return found


def kill(engine: subprocess.Popen[bytes], way: str, folder: Path) -> None:
    if way == "interrupt":
        engine.send_signal(signal.SIGINT)
        return
    if way == "terminate":
        engine.send_signal(signal.SIGTERM)
        return
    victims = {engine.pid}
    if way != "kill engine":
        # Stopped first: a supervisor that sees its engine dead must not have the time to act.
        os.kill(engine.pid, signal.SIGSTOP)
        every = processes_of(folder)
        victims |= {pid for pid, words in every.items() if way == "kill everything" or "supervisor.py" in words}
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def soak(kind: Kind, folder: Path, seed: str) -> Found:
    """One run: kill and resume until it ends by itself, then look at what is there."""
    chance, found = random.Random(seed), Found(kind.name, folder)
    write(kind, folder)
    for turn in range(ENOUGH):
        engine = start(folder, resume=turn > 0)
        spared = turn > 0 and (turn == ENOUGH - 1 or chance.random() < 0.5)
        code = None
        try:
            code = engine.wait(300) if spared else wait_for_the_moment(engine, kind, folder, chance)
        except subprocess.TimeoutExpired:
            if spared:
                found.other.append("did not end within 300 s")
                kill(engine, "kill everything", folder)
                break
            way = chance.choice(WAYS)
            found.kills[way] += 1
            kill(engine, way, folder)
            code = engine.wait()
            check_gone(found, way)
        if code == 0:
            break
        if spared:
            found.other.append(f"exit code {code}")
            break
    if left := gone(folder, 2.0):
        found.orphans += [f"after the end: {words}" for words in left.values()]
    look(found, kind)
    return found


def wait_for_the_moment(engine: subprocess.Popen[bytes], kind: Kind, folder: Path, chance: random.Random) -> int:
    """The exit code of an engine that ends before its moment comes.

    Raises:
        subprocess.TimeoutExpired: now is the moment.
    """
    if chance.random() < 0.1:
        return engine.wait(chance.uniform(0.0, kind.start_s))
    before = attempts(folder)
    while attempts(folder) <= before and engine.poll() is None:
        time.sleep(0.005)
    return engine.wait(chance.uniform(0.0, kind.work_s))


def attempts(folder: Path) -> set[Path]:
    """Attempts that an engine has begun and not yet published."""
    try:
        return set((folder / "bundle" / ".work").glob("*/attempt-*"))
    except FileNotFoundError:  # the engine removes its working state when all trials are final
        return set()


def gone(folder: Path, seconds: float) -> dict[int, str]:
    """What is left of a run's processes after at most so long."""
    until = time.monotonic() + seconds
    while (left := processes_of(folder)) and time.monotonic() < until:
        time.sleep(0.02)
    return left


def check_gone(found: Found, way: str) -> None:
    """A killed supervisor cannot clean up: then it is the resumed run that must."""
    if way != "kill engine and supervisor" and (left := gone(found.folder, GONE_S)):
        found.orphans += [f"after {way}: {words}" for words in left.values()]


def look(found: Found, kind: Kind) -> None:
    """Hold the records against the ledger."""
    folder = found.folder
    ledger = folder / "ledger"
    notes = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    notes = [note for note in notes if note["rank"] == 0]
    planned = [f"weak-{n}-1x{n}-r{r + 1}" for n in kind.workers for r in range(kind.measure["repetitions"])]
    found.trials, found.executions = len(planned), sum(note["event"] == "begin" for note in notes)
    for trial in planned:
        path = folder / "bundle" / "trials" / trial / "trial.json"
        record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"phase": "no record"}
        if record["phase"] != "Succeeded":
            found.lost.append(f"{trial}: {record['phase']} {record.get('message', '')}")
            continue
        begun = [note["run"] for note in notes if note["trial"] == trial and note["event"] == "begin"]
        ended = [note["run"] for note in notes if note["trial"] == trial and note["event"] == "end"]
        kept = record["options"]["run"]
        found.anew += len(begun) - 1
        if len(ended) > 1 or begun[-1] != kept or any(run != kept for run in ended):
            found.twice.append(f"{trial}: begun {begun}, completed {ended}, kept {kept}")
    found.other += [f"left in the temporary folder: {path.name}" for path in (folder / "tmp").glob("scalecurve-*")]
    if (folder / "bundle" / ".work").exists():
        found.other.append("the working state is still there")


def calibrate(kind: Kind, folder: Path) -> None:
    """How long a run takes that nobody touches."""
    write(kind, folder)
    began = time.monotonic()
    engine = start(folder, resume=False)
    first = last = 0.0
    while engine.poll() is None:
        if attempts(folder):
            last = time.monotonic()
            first = first or last
        time.sleep(0.005)
    code = engine.wait()
    kind.start_s, kind.work_s = first - began, last - first
    said = (folder / "said").read_text()
    shutil.rmtree(folder)
    if code != 0:
        sys.exit(f"an untouched {kind.name} run ended with {code}:\n{said}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="runs in all")
    parser.add_argument("--ddp", type=int, default=20, help="how many of them are real DDP training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="runs beside each other (they share the cores)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run later than this")
    arguments = parser.parse_args()
    top, began = Path(tempfile.mkdtemp(prefix="soak-")), time.monotonic()
    known = kinds()
    names = ["ddp"] * min(arguments.ddp, arguments.runs) + ["light"] * max(0, arguments.runs - arguments.ddp)
    for name in dict.fromkeys(names):
        calibrate(known[name], top / name)
        print(
            f"an untouched {name} run: start {known[name].start_s:.1f} s, work {known[name].work_s:.1f} s", flush=True
        )
    results: list[Found] = []

    def one(index: int) -> None:
        if time.monotonic() - began > 60 * arguments.minutes:
            return
        found = soak(known[names[index]], top / f"run-{index}", f"{arguments.seed}/{index}")
        results.append(found)
        if found.good:
            shutil.rmtree(found.folder)
        for trouble in (*found.lost, *found.twice, *found.orphans, *found.other):
            print(f"run {index} ({found.kind}): {trouble}; see {found.folder}", flush=True)
        if len(results) % 20 == 0:
            print(f"{len(results)} of {len(names)} runs, {time.monotonic() - began:.0f} s", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(one, range(len(names))))
    print_table(results, time.monotonic() - began)
    good = all(found.good for found in results)
    if good:
        shutil.rmtree(top)
    return 0 if good else 1


def print_table(results: list[Found], seconds: float) -> None:
    head = ("program", "runs", "trials", "kills", "executions", "cut short", "lost", "twice", "orphans", "other")
    rows = []
    for name in (*dict.fromkeys(found.kind for found in results), "all"):
        of = [found for found in results if name in (found.kind, "all")]
        rows.append(
            (
                name,
                len(of),
                sum(found.trials for found in of),
                sum(found.kills.total() for found in of),
                sum(found.executions for found in of),
                sum(found.anew for found in of),
                *(sum(len(getattr(found, what)) for found in of) for what in ("lost", "twice", "orphans", "other")),
            )
        )
    print()
    print("  ".join(f"{title:>10}" for title in head))
    for row in rows:
        print("  ".join(f"{value:>10}" for value in row))
    ways = sum((found.kills for found in results), Counter[str]())
    print("\nkills: " + ", ".join(f"{ways[way]} {way}" for way in WAYS))
    print(f"{seconds:.0f} s on {len(os.sched_getaffinity(0))} cores")


if __name__ == "__main__":
    sys.exit(main())
