"""What proving itself costs a custom program, a trial: two DDP ranks on CPUs, with a model of about ResNet-50's size.

    torchrun --nproc-per-node 2 -m benchmarks.proof_cost

Digests of parameters at both ends, the observed steps before the warm-up and after the last window with what observing
them costs, and reading what the profiler saw. None of it is in a timed window. Bar: 3 s a trial, steps included.
(``harness_cost.py`` has the cost of a timed step.)
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalecurve_worker.steps.schedule import ENOUGH_STEPS, enough_steps
from scalecurve_worker.torch.observation import TorchObserver

BAR_S = 3.0
WIDTH, LAYERS, BATCH, PAIRS = 1200, 18, 32, 3


def main() -> int:
    """Print the seconds of one rank's checks; 1 when they are over the bar."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH)

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()

    steps(2)
    one = statistics.median(timed(lambda: steps(1)) for _ in range(PAIRS))
    first = next(count for count in range(1, ENOUGH_STEPS + 1) if enough_steps(count, count * one))
    plain = statistics.median(timed(lambda: steps(first)) for _ in range(PAIRS))
    observer: list[TorchObserver] = []
    begun = timed(lambda: observer.append(TorchObserver(model, torch.device("cpu"))))

    def observe() -> None:
        observer[0].begin(first, anew=True)
        steps(first)
        observer[0].end()

    observed = timed(observe)
    ended = timed(lambda: observer[0].proof(None, False))
    seen = observer[0].proof(None, False).communication
    checks_s = begun + 2 * max(plain, observed) + ended
    row = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "attach_s": begun,
        "observing_s": observed - plain,
        "observed_steps": first,
        "steps_added_s": 2 * plain,
        "finish_s": ended,
        "bytes_a_step": seen.bytes / seen.steps if seen else None,
        "checks_s": checks_s,
    }
    if dist.get_rank() == 0:
        print(json.dumps(row, indent=1))
    dist.destroy_process_group()
    return 0 if checks_s <= BAR_S else 1


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
