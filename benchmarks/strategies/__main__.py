"""Throughput of every strategy of the torch program on this machine's GPUs, each run checked: a table, and JSON.

    PYTHONPATH=api:worker python -m benchmarks.strategies --out strategies.json --seconds 460

Every trial is a torchrun of the worker with windows and checks as under an engine; its rank records are judged by
``record.verdict``, and one that was not what was asked for shows its reason beside its numbers. Trials of one GPU run
side by side, each on its own. The most wanted come first, and each is printed when it has ended: what does not fit into
``--seconds`` is skipped and named. While one runs the next loads its Python, and waits. Needs torch and pydantic.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.strategies.cases import Case, everywhere, on_cpus, on_gpus
from benchmarks.strategies.rows import HEAD, Row, fill, lines_of
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import TrialSpec

COLLECTIONS = {"all": on_gpus, "everywhere": everywhere}


def main() -> int:
    """Run what fits, and print the lines of every group when it has ended."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--cases", choices=sorted(COLLECTIONS), default="all")
    arguments.add_argument("--quick", action="store_true", help="tiny models on CPUs, to try the script")
    arguments.add_argument("--only", nargs="+", default=[], help="only cases whose name holds one of these")
    arguments.add_argument("--seconds", type=float, default=460.0, help="begin nothing that would not end by then")
    arguments.add_argument("--limit", type=float, default=240.0, help="seconds for one trial")
    arguments.add_argument("--warmup", type=int, default=20, help="steps before a trial's windows, at least")
    arguments.add_argument("--out", type=Path, default=None, help="file for the JSON")
    given = arguments.parse_args()
    began = time.monotonic()
    cases = on_cpus if given.quick else COLLECTIONS[given.cases]
    wanted = [
        chosen
        for group in cases(given.workers)
        if (chosen := [case for case in group if not given.only or any(word in case.name for word in given.only)])
    ]
    rows: list[Row] = []
    left_out: list[str] = []
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        held: list[Running] = []
        for number, group in enumerate(wanted):
            names = [case.name for case in group]
            if time.monotonic() - began + max(case.seconds for case in group) > given.seconds:
                left_out += names
                discard(held)
                held = []
                continue
            running = held or hold(group, Path(folder, str(number)), given)
            release(running)
            after = wanted[number + 1 : number + 2]
            held = hold(after[0], Path(folder, str(number + 1)), given) if after else []
            ended = [finished(each, min(given.limit, given.seconds - (time.monotonic() - began))) for each in running]
            rows += ended
            print("\n".join(line for row in ended for line in lines_of(row)), flush=True)
            print(f"  {time.monotonic() - began:.0f} s: {', '.join(names)}", file=sys.stderr, flush=True)
            if given.out:
                wire = {"rows": [asdict(row) for row in rows], "leftOut": left_out}
                given.out.write_text(json.dumps(wire, indent=1) + "\n")
    if left_out:
        print(f"skipped, for lack of time: {', '.join(left_out)}")
    return 1 if any(row.problem for row in rows) else 0


@dataclass
class Running:
    """A case whose processes are there, and wait for a file until ``began``."""

    case: Case
    trial: TrialSpec
    out: Path
    process: subprocess.Popen[bytes]
    began: float = 0.0


def hold(cases: Sequence[Case], folder: Path, given: argparse.Namespace) -> list[Running]:
    """Start the processes of every case, on devices of its own, up to where they would touch a device."""
    started = []
    first = 0
    for index, case in enumerate(cases):
        out = folder / str(index)
        out.mkdir(parents=True)
        trial = trial_of(case, given.quick, given.warmup)
        devices = range(first, first + case.workers)
        first += case.workers
        with (out / "log").open("wb") as log:
            process = subprocess.Popen(
                command(trial),
                env=environment(trial, out, devices, given.quick),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        started.append(Running(case, trial, out, process))
    return started


def release(running: Sequence[Running]) -> None:
    """Let them begin."""
    for each in running:
        each.began = time.monotonic()
        (each.out / "go").touch()


def discard(running: Sequence[Running]) -> None:
    """End processes that were held for nothing."""
    for each in running:
        each.process.terminate()
        each.process.wait()


def finished(running: Running, limit: float) -> Row:
    """Wait for a case and read its records."""
    case, out = running.case, running.out
    row = Row(case.name, case.workers)
    try:
        status = running.process.wait(timeout=max(1.0, limit))
    except subprocess.TimeoutExpired:
        discard([running])
        status = None
    row.seconds = time.monotonic() - running.began
    said = (out / "log").read_text(errors="replace").splitlines()
    if status != 0:
        why = [line for line in said if line.startswith("scalecurve:")] or said[-15:]
        row.problem = f"not done after {limit:.0f} s" if status is None else f"exit {status}: {' | '.join(why[:4])}"
    else:
        names = [out / f"rank-{rank}.json" for rank in range(case.workers)]
        try:
            ranks = [RankRecord.model_validate_json(name.read_text()) for name in names if name.exists()]
            fill(row, running.trial, ranks)
        except ValueError as error:
            # One unreadable record must not cost the others.
            row.problem = f"records: {str(error).splitlines()[0]}"
    return row


def trial_of(case: Case, cpu: bool, warmup: int) -> TrialSpec:
    """A weak point of one node; a busy machine is no fault of a dry run."""
    steps: dict[str, float] = {"warmupSteps": warmup, "maxWarmupSteps": 2 * warmup, "stepsPerWindow": case.steps}
    measure = {**steps, "windows": 3}
    if cpu:
        measure |= {"warmupSteps": 2, "maxWarmupSteps": 2, "maxForeignLoad": 1.0}
    name = "".join(letter if letter.isalnum() else "-" for letter in case.name.lower())
    return TrialSpec.model_validate(
        {
            "experiment": "strategies",
            "name": name,
            "point": {
                "mode": "weak",
                "workers": case.workers,
                "nodes": 1,
                "workersPerNode": case.workers,
                "batchPerWorker": case.batch,
                "globalBatch": case.batch * case.workers,
                "series": "weak",
                "name": name,
            },
            "repetition": 0,
            "seed": 0,
            "workload": {"program": "torch", "device": "cpu" if cpu else "gpu", **case.workload},
            "measure": {**measure, "exposedCommunication": case.exposed},
        }
    )


def command(trial: TrialSpec) -> list[str]:
    """As the local engine starts it, but for the waiting."""
    processes = trial.workload.processes(trial.point.workers)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    return [*torchrun, f"--nproc-per-node={processes}", "-m", "benchmarks.strategies.held_worker"]


def environment(trial: TrialSpec, out: Path, devices: Sequence[int], cpu: bool) -> dict[str, str]:
    """Each worker its GPU and an equal part of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    gpus = max(len(devices), _gpus()) if not cpu else len(devices)
    each = max(1, len(cores) // gpus)
    own = [cores[at * each : (at + 1) * each] or cores for at in devices]
    if trial.workload.one_process:
        own = [sorted({core for part in own for core in part})]
    sets = ";".join(",".join(map(str, part)) for part in own)
    chosen = {} if cpu else {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
    pinned = {"SCALECURVE_CORES": sets} if len(cores) >= gpus else {}
    threads = "1" if cpu else str(max(1, each // 2))
    return {
        **os.environ,
        **chosen,
        **pinned,
        "SCALECURVE_TRIAL": json.dumps(trial.wire()),
        "HOLD": str(out / "go"),
        "SCALECURVE_OUT": str(out),
        "SCALECURVE_THREADS": threads,
        "OMP_NUM_THREADS": threads,
    }


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


if __name__ == "__main__":
    sys.exit(main())
