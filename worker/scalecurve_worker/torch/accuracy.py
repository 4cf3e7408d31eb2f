"""Training to accuracy, after timing: fresh parameters, real data, an evaluation after every epoch."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from scalecurve_api.record.rank import Evaluation
from scalecurve_api.spec.measure import Accuracy
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch.checkpoints import open_folder
from scalecurve_worker.torch.data import Loader, dataset_facts
from scalecurve_worker.torch.evaluation import bare_module, evaluate
from scalecurve_worker.torch.noise_meter import NoiseMeter
from scalecurve_worker.torch.trained_model import Trained, look_at
from scalecurve_worker.torch.training import Trainer
from scalecurve_worker.torch.transfer import note_frozen
from scalecurve_worker.training.learning_rate import changes, rate_at

if TYPE_CHECKING:
    from scalecurve_worker.torch.program import Job


def train_to_accuracy(job: Job, bench: Bench, data: Loader, goal: Accuracy) -> None:
    """Train from the trial's seed and evaluate after each epoch, until the target or the last epoch.

    Rows go to ``evals.jsonl`` as they come and into rank 0's record. A loss that is not finite ends it.
    """
    world = bench.session.communicator
    if goal.checkpoints is not None and world.rank == 0:
        open_folder(goal.checkpoints)
    trainer = job.trainer(job.spread(job.build(data.spec)))
    trainer.watch = tally = Tally(job.device)
    parts = job.workload.options.gradient_accumulation
    meter = NoiseMeter(trainer, job.batch, world, parts) if goal.noise_scale else None
    validation = job.data("val")
    if world.rank == 0:
        bench.session.facts.dataset = dataset_facts(data, validation)
    rule, varies = job.workload.optimizer, changes(job.workload.optimizer)
    step, wall_s = 0, 0.0
    for epoch in range(goal.epochs):
        data.set_epoch(epoch if job.workload.options.reshuffle else 0)
        world.barrier()
        began = time.monotonic()
        losses = torch.zeros((), device=job.device)
        tally.clear()
        for index, batch in enumerate(data):
            if varies:
                at = rate_at(rule, epoch + index / len(data), goal.epochs, job.trial.point.workers)
                for group in trainer.optimizer.param_groups:
                    group["lr"] = at
            losses += trainer.update(job.micro_batches(batch))
        train_loss = float(losses) / len(data)
        seconds = time.monotonic() - began
        step += len(data)
        if trainer.spread.serving is not None:
            trainer.spread.serving.settle()
        fitted = tally.counts()
        right, counted, loss = evaluate(job, trainer.spread.module, validation)
        ranks = world.all_gather([seconds, _text(train_loss), right, counted, _text(loss), *fitted])
        wall_s += max(rank[0] for rank in ranks)
        total = sum(rank[3] for rank in ranks)
        row = {
            "epoch": epoch + 1,
            "step": step,
            "wall_s": wall_s,
            "train_loss": sum(float(rank[1]) for rank in ranks) / len(ranks),
            "loss": sum(float(rank[4]) for rank in ranks) / total,
            "accuracy": sum(rank[2] for rank in ranks) / total,
            "train_accuracy": sum(rank[5] for rank in ranks) / sum(rank[6] for rank in ranks),
        }
        if not (math.isfinite(row["train_loss"]) and math.isfinite(row["loss"])):
            bench.not_finite()
            break
        noise = meter.row(epoch + 1) if meter is not None else None
        if world.rank == 0:
            bench.session.keep_evaluation(Evaluation.model_validate(row))
            if noise is not None:
                bench.session.facts.noise_scale.append(noise)
        if goal.target is not None and row["accuracy"] >= goal.target:
            break
    validation.close()
    note_frozen(bench.session.facts.frozen_checksums, bare_module(trainer.spread.module))
    _look(job, bench, trainer, data, goal)


class Tally:
    """Right answers of the training's own forward passes, on the images and by the model that each step had."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Begin an epoch."""
        self._right = torch.zeros((), dtype=torch.int64, device=self._device)
        self._counted = 0

    def __call__(self, logits: Tensor, targets: Tensor) -> None:
        """Count a batch; nothing is read from the device."""
        self._right += (logits.detach().argmax(-1) == targets).sum()
        self._counted += targets.numel()

    def counts(self) -> tuple[int, int]:
        """Right answers and answers."""
        return int(self._right), self._counted


def _look(job: Job, bench: Bench, trainer: Trainer, data: Loader, goal: Accuracy) -> None:
    """Look at the trained model on rank 0, while the others wait."""
    world = bench.session.communicator
    if world.rank == 0 and (goal.checkpoints is not None or goal.quantization is not None):
        validation = job.data("val", alone=True)
        module = bare_module(trainer.spread.module).eval()
        look_at(Trained(job, bench.session.facts, module, data, validation), goal)
        validation.close()
    world.barrier()


def _text(value: float) -> str:
    # JSON has no NaN.
    return repr(value)
