"""How long does a projection take, and how far off is one from public tables of a large transformer?

    python docs/evidence/printed/explanation/scripts/projection.py     # the tables of docs/explanation/models.md; about two minutes of one core
    python docs/evidence/printed/explanation/scripts/projection.py --workers 8

The step of llama_8b under FSDP is recorded at 8, 128 and 512 workers, in a process of its own each. Compute is what
makes the step at 8 GPUs take what torchtitan published; that of 128 follows from the collectives and the links alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from scalecurve.hardware.devices import find_link
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.step_program import StepProgram
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_models.projection.links import WorkerLinks, links_of
from scalecurve_models.projection.projection import replay
from scalecurve_models.projection.worker import Balance

GIB = 1 << 30
LENGTH, BATCH, BASE = 8192, 2, 8
# Peak and bandwidth of that H100: what shares a step among its kernels. Only their ratio counts.
H100 = Balance(989e12, 2.4e12, "H100, 96 GB HBM2e")


@dataclass(frozen=True)
class Published:
    """Tokens per second and GPU, and GiB, by GPUs, with 8,192 tokens, 2 sequences a GPU, selective checkpoints, 400
    Gbit/s for each GPU: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, commit 31a17bf, table 1, 3."""

    name: str
    tokens: dict[int, float]
    gib: dict[int, float]


TABLES = (
    Published("FSDP", {8: 5762, 128: 5605}, {8: 82.4, 128: 67.0}),
    Published("FSDP, compiled", {8: 6667, 128: 6514}, {8: 77.0, 128: 62.0}),
)


@dataclass(frozen=True)
class Recorded:
    """A step with what recording it took."""

    program: StepProgram
    seconds: float
    cpu_s: float
    peak_bytes: int


def recorded(workers: int) -> Recorded:
    """The step at a worker count, eight a node."""
    workload: dict[str, Any] = {
        "program": "torch",
        "model": "llama_8b",
        "strategy": "fsdp",
        "precision": "bf16",
        "optimizer": {"name": "adamw"},
        "options": {"activationCheckpointing": "selective"},
        "data": {"source": "synthetic", "sequenceLength": LENGTH},
    }
    tree = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "llama"},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [workers], "batch": {"perWorker": BATCH}},
            "placement": {"workersPerNode": BASE},
            "workload": workload,
        },
    }
    trial = make_plan(ScalingExperiment.model_validate(tree)).trials[0]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _RECORD], input=canonical_json(trial.sent()), capture_output=True, text=True, check=True
    )
    seconds = time.monotonic() - began
    answer = json.loads(done.stdout)
    return Recorded(StepProgram.model_validate(answer["program"]), seconds, answer["cpu_s"], answer["peak_bytes"])


_RECORD = """
import json, resource, sys
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.extras.projection.step import record_step
program = record_step(TrialSpec.model_validate_json(sys.stdin.read()))
usage = resource.getrusage(resource.RUSAGE_SELF)
taken = {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}
print(json.dumps({"program": program.model_dump(mode="json", by_alias=True), **taken}))
"""


def step_s(program: StepProgram, compute_s: float, links: WorkerLinks) -> float:
    """Of a step whose work takes so long in all."""
    unit = compute_s / H100.total(program)
    return replay(
        program, [unit * H100.weight(each) for each in program.work], [links.seconds(e) for e in program.exchanges]
    ).step_s


def compute_of(program: StepProgram, measured_s: float, links: WorkerLinks) -> float:
    """The compute with which the step takes what was measured, by bisection: a step grows with its compute."""
    low, high = 0.0, measured_s
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if step_s(program, middle, links) > measured_s else (middle, high)
    return high


def main() -> None:
    """Print both tables, or one row of the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, help="record the step at this worker count, and nothing else")
    alone = parser.parse_args().workers
    steps = {workers: recorded(workers) for workers in ([alone] if alone else (BASE, 128, 512))}
    print("| GPUs | recorded in, s | CPU, s | peak, GiB | collectives | GB |\n| --- | --- | --- | --- | --- | --- |")
    for workers, each in steps.items():
        sent = each.program.exchanged_bytes() / 1e9
        taken = f"{each.seconds:.0f} | {each.cpu_s:.0f} | {each.peak_bytes / GIB:.2f}"
        print(f"| {workers} | {taken} | {len(each.program.exchanges)} | {sent:.1f} |")
    if alone:
        return
    links = links_of([], find_link("nvlink4"), find_link("400gbps"))
    print("\n| published | GPUs | tokens/s a GPU | predicted | error | memory, GiB | predicted | error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    tokens = BATCH * LENGTH
    for table in TABLES:
        compute = compute_of(steps[BASE].program, tokens / table.tokens[BASE], links)
        for workers, rate in table.tokens.items():
            program = steps[workers].program
            predicted = tokens / step_s(program, compute, links)
            fitted = f"{predicted:,.0f} | {predicted / rate - 1:+.1%}" if workers != BASE else "given | "
            gib = program.memory.peak / GIB
            said = table.gib[workers]
            print(f"| {table.name} | {workers} | {rate:,.0f} | {fitted} | {said} | {gib:.1f} | {gib / said - 1:+.0%} |")


if __name__ == "__main__":
    main()
