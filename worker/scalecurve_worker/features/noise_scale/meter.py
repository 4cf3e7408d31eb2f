"""Squared norms of gradients before and after averaging, step by step.

DDP looks at a hook's annotations, so that these must not be text (PEP 563).
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from scalecurve_api.features.noise_scale.facts import NoiseScaleRow
from scalecurve_worker.features.noise_scale.estimate import estimate
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.torch.training import Trainer


class NoiseMeter:
    """Watches a trainer's backward passes: workers' gradients against their mean, or with one worker micro-batches'.

    With several workers a hook squares each bucket before torch's own all-reduce of it, which goes on as without. With
    one, each micro-batch's gradient is the difference that it makes to the sum, which takes a copy of the gradients.
    """

    def __init__(self, trainer: Trainer, batch: int, world: Communicator, parts: int) -> None:
        """``batch`` is one worker's, in samples; ``parts`` the micro-batches of a step."""
        self._trainer, self._world = trainer, world
        self._workers = world.world
        self._small, self._large = (batch, batch * self._workers) if self._workers > 1 else (batch // parts, batch)
        self._sum = torch.zeros(())
        self._before: list[Tensor] = []
        self._skip = trainer.wrapped.learns_graph
        self._steps: list[Tensor] = []
        module = trainer.wrapped.module
        if self._workers > 1:
            assert isinstance(module, DistributedDataParallel)
            module.register_comm_hook(self, _add_squares)
        trainer.after_backward = self._add_micro_batch

    def add(self, gradients: Tensor) -> None:
        self._sum = self._sum.to(gradients.device) + gradients.double().square().sum()

    def row(self, epoch: int) -> NoiseScaleRow | None:
        """Return the row of the epoch's steps, the same on every rank; then begin another. Collective."""
        steps = torch.stack(self._steps).tolist() if self._steps else []
        self._steps = []
        # As text, for JSON has no NaN.
        each = self._world.all_gather([[repr(norm) for norm in norms] for norms in zip(*steps, strict=True)])
        if not steps:
            return None
        small = [sum(map(float, norms)) / len(norms) for norms in zip(*(rank[0] for rank in each), strict=True)]
        return estimate(epoch, self._small, self._large, small, [float(norm) for norm in each[0][1]])

    def _add_micro_batch(self, index: int, parts: int) -> None:
        """After the backward pass of a micro-batch; gradients are of the mean over the parts."""
        if self._workers == 1:
            self._part(parts)
        if index < parts - 1:
            return
        small = self._sum / (parts if self._workers == 1 else 1)
        large = torch.stack([gradient.double().square().sum() for gradient in self._gradients()]).sum()
        self._sum, self._before = torch.zeros(()), []
        scaler = self._trainer.scaler
        unscaled = 1.0 if scaler is None else scaler.get_scale() ** -2
        # While DDP learns its graph, every micro-batch is reduced, and a bucket holds means of others.
        if not self._skip:
            self._steps.append(torch.stack([small.to(large.device), large]) * unscaled)
        self._skip = False

    def _part(self, parts: int) -> None:
        now = self._gradients()
        before = self._before or [torch.zeros_like(gradient) for gradient in now]
        for gradient, earlier in zip(now, before, strict=True):
            self.add((gradient - earlier) * parts)
        self._before = [gradient.clone() for gradient in now]

    def _gradients(self) -> list[Tensor]:
        return [each.grad for each in self._trainer.wrapped.module.parameters() if each.grad is not None]


def _add_squares(meter: NoiseMeter, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """The hook: add up the squares of what this worker alone has, then torch's all-reduce."""
    meter.add(bucket.buffer())
    group: Any = None
    return default_hooks.allreduce_hook(group, bucket)
