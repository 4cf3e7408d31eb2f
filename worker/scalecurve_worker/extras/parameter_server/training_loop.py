"""The timed loop of a worker that has parameter servers."""

from __future__ import annotations

from collections.abc import Iterator

from scalecurve_api.record.rank import ServerCounts
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.training import Trainer


def serve(bench: Bench, trainer: Trainer, batches: Iterator[list[Batch]], samples: int) -> list[ServerCounts]:
    """Run every step; what the servers counted, on rank 0.

    A step is an update of the servers. Where backup workers are asked for, a worker may be late: its gradient is
    dropped, the updates that the others made meanwhile are steps that it leaves out, and none of them counts a sample
    of this worker. J. Chen et al., "Revisiting distributed synchronous SGD", arXiv:1604.00981.
    """
    serving = trainer.spread.serving
    assert serving is not None
    optimizer = serving.optimizer
    missed = 0
    while bench.step(samples):
        if missed:
            missed -= 1
            bench.counted(0)
            continue
        bench.loss(trainer.update(next(batches)))
        if not optimizer.used:
            bench.counted(0)
        missed = optimizer.behind
    serving.settle()
    found = optimizer.counts() if serving.communicator.rank == 0 else []
    # Nobody goes on to other gradients before these are counted.
    serving.communicator.barrier()
    return found
