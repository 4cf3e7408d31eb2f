"""Training to accuracy, after timing: fresh parameters, real data, an evaluation after every epoch."""

from __future__ import annotations

import json
import math
import os
import time
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scalebench_api.contract import EVALUATIONS_FILE
from scalebench_api.experiment import Accuracy
from scalebench_api.record.rank import Evaluation
from scalebench_worker.sdk import Bench
from scalebench_worker.torch.data import Loader
from scalebench_worker.torch.models import cross_entropy
from scalebench_worker.torch.precision import autocast
from scalebench_worker.torch.rates import changes, rate_at
from scalebench_worker.torch.sharding import local_elements

if TYPE_CHECKING:
    from scalebench_worker.torch.program import Job


def train_to_accuracy(job: Job, bench: Bench, data: Loader, asked: Accuracy) -> None:
    """Train from the trial's seed and evaluate after each epoch, until the target or the last epoch.

    Rows go to ``evals.jsonl`` as they come and into rank 0's record. A loss that is not finite ends it.
    """
    world = bench.session.communicator
    trainer = job.trainer(job.spread(job.build(data.spec)))
    validation = job.data("val")
    rule, varies = job.workload.optimizer, changes(job.workload.optimizer)
    step, wall_s = 0, 0.0
    for epoch in range(asked.epochs):
        data.set_epoch(epoch if job.workload.options.reshuffle else 0)
        world.barrier()
        began = time.monotonic()
        losses = torch.zeros((), device=job.device)
        for index, batch in enumerate(data):
            if varies:
                at = rate_at(rule, epoch + index / len(data), asked.epochs, job.trial.point.workers)
                for group in trainer.optimizer.param_groups:
                    group["lr"] = at
            losses += trainer.update(job.micro_batches(batch))
        train_loss = float(losses) / len(data)
        seconds = time.monotonic() - began
        step += len(data)
        if trainer.spread.serving is not None:
            trainer.spread.serving.settle()
        right, counted, loss = _evaluate(job, trainer.spread.module, validation)
        ranks = world.all_gather([seconds, _text(train_loss), right, counted, _text(loss)])
        wall_s += max(rank[0] for rank in ranks)
        total = sum(rank[3] for rank in ranks)
        row = {
            "epoch": epoch + 1,
            "step": step,
            "wall_s": wall_s,
            "train_loss": sum(float(rank[1]) for rank in ranks) / len(ranks),
            "loss": sum(float(rank[4]) for rank in ranks) / total,
            "accuracy": sum(rank[2] for rank in ranks) / total,
        }
        if not (math.isfinite(row["train_loss"]) and math.isfinite(row["loss"])):
            bench.not_finite()
            break
        if world.rank == 0:
            _keep(bench, Evaluation.model_validate(row))
        if asked.target is not None and row["accuracy"] >= asked.target:
            break
    validation.close()


def _evaluate(job: Job, module: nn.Module, validation: Loader) -> tuple[int, int, float]:
    """Right answers, answers and summed loss over this rank's share of the validation set."""
    bare = getattr(module, "module", module)
    if dist.is_initialized() and dist.get_world_size() > 1:
        # Batch norm's statistics are each rank's own; the model that is judged is rank 0's, as a checkpoint would be.
        for buffer in bare.buffers():
            dist.broadcast(buffer, 0)
    right = torch.zeros((), dtype=torch.int64, device=job.device)
    loss = torch.zeros((), dtype=torch.float64, device=job.device)
    counted = 0
    bare.eval()
    # Not inference_mode: FSDP's gathered parameters must still be of use to the next step.
    with torch.no_grad():
        for inputs, targets in validation:
            with autocast(job.workload.precision, job.device):
                logits: Tensor = bare(inputs)
                loss += cross_entropy(logits, targets).double() * targets.numel()
            right += (logits.argmax(-1) == targets).sum()
            counted += targets.numel()
        if local_elements(bare) is not None:
            _keep_up(job, bare, validation)
    bare.train()
    return int(right), counted, float(loss)


def _keep_up(job: Job, module: nn.Module, validation: Loader) -> None:
    """A forward pass that gathers parameters is a collective: go on until the rank with most batches has ended."""
    most = torch.tensor(len(validation), device=job.device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    inputs, _ = next(iter(job.data("train")))
    for _ in range(int(most) - len(validation)):
        with autocast(job.workload.precision, job.device):
            module(inputs)


def _keep(bench: Bench, row: Evaluation) -> None:
    bench.session.facts.evaluations.append(row)
    if bench.session.out is not None:
        with (bench.session.out / EVALUATIONS_FILE).open("a") as file:
            file.write(json.dumps(row.wire()) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _text(value: float) -> str:
    # JSON has no NaN.
    return repr(value)
