"""Bubbles of pipelines with equal stages against (p-1)/(m+p-1), and of a pipeline whose last stage is slower.

python -m benchmarks.pipeline_bubble
python -m benchmarks.pipeline_bubble --cores 4
python -m benchmarks.pipeline_bubble --quick

A layer holds its worker for some milliseconds, asleep, so that 4 workers need no 4 cores: what is measured is the order
of the passes, and what the harness and gloo add to them. With ``--cores`` layers compute matrix products instead, on so
many workers; use no more than there are idle cores. Prints one row a pipeline; leaves 1 where a difference from the
formula is above 5 % of a step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scalecurve_api.programs.parallelism import PipelineSchedule
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.record.layout_facts import PipelineTimes
from scalecurve_worker.extras.layouts.layout import LaidOut
from scalecurve_worker.extras.layouts.meshes import make_meshes
from scalecurve_worker.extras.layouts.pipeline_times import observe_pipeline
from scalecurve_worker.extras.layouts.updates import LayoutTrainer
from scalecurve_worker.torch import models

BAR = 0.05
WIDTH, MILLISECONDS = 16, 10
SLOW = 1.5
"""Of the layers of the last stage in the uneven pipeline"""
Case = tuple[str, str, int, int, float]
"""Kind of layer, schedule, workers, micro-batches, time of the last stage over that of the others"""


class _Hold(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, seconds: float) -> Tensor:
        context.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor, None]:
        time.sleep(2 * context.seconds)
        return grad.clone(), None


class Held(nn.Module):
    """Takes a time forward, and twice that backward, without a core."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        held: Tensor = _Hold.apply(x * self.scale, self.seconds)
        return held


class Computed(nn.Module):
    """Takes the time of matrix products whose weights do not change the shape of the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = nn.Sequential(nn.Linear(WIDTH, width), nn.Linear(width, width), nn.Linear(width, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.wide(x.expand(64, *x.shape).flatten(0, 1)).unflatten(0, (64, x.shape[0])).mean(0)  # type: ignore[no-any-return]


def observed(case: Case) -> PipelineTimes:
    """One pipeline over all ranks."""
    kind, schedule, workers, parts, last = case
    virtual = 2 if schedule == PipelineSchedule.interleaved else 1
    count = workers * 2
    per_stage = count // (workers * virtual)
    times = [1.0] * (count - per_stage) + [last] * per_stage
    layers = [Held(MILLISECONDS / 1e3 * t) if kind == "held" else Computed(int(512 * t**0.5)) for t in times]
    fields = {"program": "torch", "model": "mlp", "strategy": "mesh", "device": "cpu"}
    layout = {"replicate": 1, "pipeline": workers, "schedule": schedule, "microBatches": parts}
    workload = TorchWorkload.model_validate({**fields, "parallelism": layout})
    assert workload.layout is not None
    degrees = workload.layout.degrees(workers, workers, parts)
    assert degrees is not None
    device = torch.device("cpu")
    laid = LaidOut(nn.Sequential(*layers), make_meshes(degrees, device), workload, 1)
    loss = partial(models.training_loss, auxiliary_weight=0.0, smoothing=0.0)
    trainer = LayoutTrainer(laid, workload.precision, device, loss, workload.layout.schedule)
    batches = [(torch.randn(2, WIDTH), torch.randint(WIDTH, (2,))) for _ in range(parts)]
    trainer.passes(batches)
    made = observe_pipeline(trainer, workload.layout, batches, device)
    assert made is not None
    return made


def rank(cases: list[Case], out: Path) -> None:
    """What each rank does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rows = [observed(case).model_dump(mode="json") for case in cases]
    if dist.get_rank() == 0:
        out.write_text(json.dumps(rows))
    dist.destroy_process_group()


def measured(cases: list[Case]) -> list[PipelineTimes]:
    """The pipelines of cases with one number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
        run += [f"--nproc-per-node={cases[0][2]}", "-m", "benchmarks.pipeline_bubble", "--rank", json.dumps(cases)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        subprocess.run([*run, "--out", str(out)], check=True, env=environment)
        return [PipelineTimes.model_validate(row) for row in json.loads(out.read_text())]


def main() -> int:
    """One row a pipeline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, help="workers that compute, instead of 2 and 4 that sleep")
    parser.add_argument("--quick", action="store_true", help="2 workers that sleep, and as many micro-batches")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(json.loads(options.rank), options.out)
        return 0
    kind, counts = ("computed", [options.cores]) if options.cores else ("held", [2] if options.quick else [2, 4])
    names = (
        f"{'layers':9} {'schedule':12} {'p':>2} {'m':>3} {'step ms':>8} {'bubble':>8} {'formula':>8} {'difference':>10}"
    )
    print(f"{names} {'uneven':>8} {'slowest':>8}")
    wrong = 0
    for workers in counts:
        equal = [
            (kind, each.value, workers, m * workers, 1.0)
            for each in PipelineSchedule
            for m in ((1,) if options.quick else (1, 2, 4))
        ]
        cases: list[Case] = [*equal, (kind, "1f1b", workers, 2 * workers, SLOW)]
        for case, times in zip(cases, measured(cases), strict=True):
            expected = times.uneven_bubble if case[4] != 1 else times.expected_bubble
            uneven = times.uneven_bubble - times.expected_bubble
            wrong += abs(times.bubble - expected) > BAR
            print(
                f"{case[0]:9} {case[1]:12} {case[2]:2} {case[3]:3} {times.span_s * 1e3:8.1f} {times.bubble:8.3f} "
                f"{times.expected_bubble:8.3f} {times.bubble - times.expected_bubble:10.3f} {uneven:8.3f} "
                f"{times.slowest + 1:8}",
                flush=True,
            )
    print(f"{wrong} of the bubbles differ by more than {BAR:.0%} of a step from what they should be")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
