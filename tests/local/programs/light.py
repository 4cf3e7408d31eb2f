"""A light custom program that keeps the worker's contract with the standard library alone, and misbehaves on request.

    light.py [--step-ms 1] [--ledger FILE] [--do WHAT ...]

WHAT: exit:RANK:CODE, kill:RANK:SIGNAL, hang:RANK, hold:FILE (waits while it exists), stubborn (ignores SIGTERM),
daemon:FILE (double-forks a sleeper, which writes its pid), junk:RANK (writes a bad rank record), print:BYTES,
memory:RANK[:BATCH] (raises MemoryError, if its batch is larger), say:RANK:TEXT (writes a failure file, exits with 1),
linger:FILE (waits while it exists, at its very end), link:RANK:FILE:TARGET, fifo:RANK:FILE,
sparse:RANK:FILE:BYTES (at its end, in place of one of its files),
once:FILE:WHAT (does WHAT if FILE is not there yet).
Every execution appends ``begin`` and ``end`` lines to the ledger; ``end`` comes after the rank record is in place.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import sys
import time
import uuid
from pathlib import Path
from typing import Any

HEADER, ROW = struct.Struct("<8sII16x"), struct.Struct("<iiqqif")
WARMUP = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--step-ms", type=float, default=1.0)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--do", action="append", default=[])
    arguments = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    out = Path(os.environ["SCALECURVE_OUT"])
    trial = json.loads(Path(os.environ["SCALECURVE_TRIAL"]).read_text())
    run = uuid.uuid4().hex
    note(arguments.ledger, trial["name"], rank, run, "begin")
    print(f"light: rank {rank} of {world}", flush=True)
    started = time.time_ns()
    topology = {
        "rank": rank,
        "localRank": rank,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": "cpu:" + ",".join(map(str, sorted(os.sched_getaffinity(0)))),
        "deviceName": "light",
        "cores": sorted(os.sched_getaffinity(0)),
    }
    put(out / f"rank-{rank}.ready.json", topology)
    with (out / f"rank-{rank}.steps").open("wb") as journal:
        journal.write(HEADER.pack(b"SBSTEPS1", rank, ROW.size))
        windows = train(trial, journal, arguments.step_ms, lambda: misbehave(within(arguments.do, trial), rank, out))
    record = {
        "schema": "scalecurve.dev/rank/v1alpha1",
        "trial": trial["name"],
        "world": world,
        "topology": topology,
        "windows": windows,
        "options": {"run": run, "port": os.environ.get("MASTER_PORT"), "tmp": os.environ.get("TMPDIR")},
        "environment": {name: os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "MASTER_ADDR", "LIGHT")},
        "startedNs": started,
        "firstStepNs": started,
        "endedNs": time.time_ns(),
    }
    while rank == 0 and not all((out / f"rank-{other}.json").exists() for other in range(1, world)):
        time.sleep(0.002)
    if f"junk:{rank}" in arguments.do:
        put(out / f"rank-{rank}.json", {"nonsense": True})
    else:
        put(out / f"rank-{rank}.json", record)
    for what in arguments.do:
        swap(what, rank, out)
    note(arguments.ledger, trial["name"], rank, run, "end")
    for what in arguments.do:
        if what.startswith("linger:"):
            quirk("hold", what.partition(":")[2], rank)


def within(wanted: list[str], trial: dict[str, Any]) -> list[str]:
    """Without the ``memory`` that this trial's batch does not fill."""
    limits = {what: int(what.split(":")[2]) for what in wanted if what.startswith("memory:") and what.count(":") == 2}
    return [what for what in wanted if limits.get(what, 0) < (trial["point"].get("batchPerWorker") or 1)]


def swap(what: str, rank: int, out: Path) -> None:
    name, _, rest = what.partition(":")
    if name not in ("link", "fifo", "sparse") or rest.partition(":")[0] != str(rank):
        return
    _, file, *more = rest.split(":")
    (out / file).unlink(missing_ok=True)
    if name == "link":
        (out / file).symlink_to(more[0])
    elif name == "fifo":
        os.mkfifo(out / file)
    else:
        with (out / file).open("wb") as sparse:
            sparse.truncate(int(more[0]))


def train(trial: dict[str, Any], journal: Any, step_ms: float, misbehave: Any) -> list[dict[str, Any]]:
    measure, windows, step = trial["measure"], [], 0
    samples = trial["point"].get("batchPerWorker") or 1
    for index in range(-1, measure["windows"]):
        steps = WARMUP if index < 0 else measure["stepsPerWindow"]
        opened, first = time.time_ns(), step
        for _ in range(steps):
            start = time.time_ns()
            time.sleep(step_ms / 1e3)
            journal.write(ROW.pack(step, index, start, time.time_ns() - start, samples, 0.5))
            step += 1
        journal.flush()
        wall = time.time_ns() - opened
        if index >= 0:
            windows.append(
                {"index": index, "kind": "train", "openNs": opened, "wallNs": wall}
                | {"firstStep": first, "steps": steps, "samples": steps * samples}
            )
        if index == 0:
            misbehave()
    return windows


def misbehave(wanted: list[str], rank: int, out: Path) -> None:
    for what in wanted:
        name, _, rest = what.partition(":")
        if name == "once":
            flag, _, inner = rest.partition(":")
            if rank == 0 and not Path(flag).exists():
                Path(flag).touch()
                misbehave([inner], rank, out)
        elif name in ("daemon", "hold", "print", "stubborn"):
            quirk(name, rest, rank)
        elif name not in ("linger", "link", "fifo", "sparse") and rest.split(":")[0] == str(rank):
            end_badly(name, rest, rank, out)


def quirk(name: str, rest: str, rank: int) -> None:
    if name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif name == "print":
        sys.stdout.write(("x" * 99 + "\n") * (int(rest) // 100))
        sys.stdout.flush()
    elif name == "hold":
        while Path(rest).exists():
            time.sleep(0.01)
    elif rank == 0:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                Path(rest).write_text(str(os.getpid()))
                time.sleep(600)
            os._exit(0)
        # Otherwise the trial may end, and the sleeper with it, before it has written.
        while not (Path(rest).exists() and Path(rest).read_text()):
            time.sleep(0.01)


def end_badly(name: str, rest: str, rank: int, out: Path) -> None:
    argument = rest.partition(":")[2]
    # Not before every rank has begun: how it ends is what tests look at.
    while not all((out / f"rank-{other}.ready.json").exists() for other in range(int(os.environ["WORLD_SIZE"]))):
        time.sleep(0.01)
    print(f"light: about to {name}", flush=True)
    if name == "exit":
        sys.exit(int(argument))
    elif name == "kill":
        os.kill(os.getpid(), int(argument))
    elif name == "hang":
        time.sleep(600)
    elif name == "memory":
        raise MemoryError("no more")
    elif name == "say":
        put(out / f"rank-{rank}.failure.json", {"rank": rank, "reason": "RankFailed", "message": argument})
        sys.exit(1)


def put(path: Path, value: object) -> None:
    temporary = path.with_name(path.name + ".new")
    with temporary.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def note(ledger: Path | None, trial: str, rank: int, run: str, event: str) -> None:
    if ledger is not None:
        line = json.dumps({"trial": trial, "rank": rank, "run": run, "event": event, "at": time.time_ns()}) + "\n"
        descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(descriptor, line.encode())
        os.close(descriptor)


if __name__ == "__main__":
    main()
