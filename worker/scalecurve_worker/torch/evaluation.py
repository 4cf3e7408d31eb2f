"""How good a model is on a validation set: right answers and loss over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scalecurve_worker.torch.data import Loader
from scalecurve_worker.torch.models import cross_entropy
from scalecurve_worker.torch.precision import autocast
from scalecurve_worker.torch.sharding import local_elements
from scalecurve_worker.torch.transfer import train_mode

if TYPE_CHECKING:
    from scalecurve_worker.torch.program import Job


def evaluate(job: Job, module: nn.Module, validation: Loader) -> tuple[int, int, float]:
    """Right answers, answers and summed loss over this rank's share of the validation set. Collective."""
    bare = bare_module(module)
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
    train_mode(bare)
    return int(right), counted, float(loss)


def bare_module(module: nn.Module) -> nn.Module:
    """The model itself, without DistributedDataParallel or DataParallel around it."""
    bare = getattr(module, "module", module)
    assert isinstance(bare, nn.Module)
    return bare


def _keep_up(job: Job, module: nn.Module, validation: Loader) -> None:
    """A forward pass that gathers parameters is a collective: go on until the rank with most batches has ended."""
    most = torch.tensor(len(validation), device=job.device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    inputs, _ = next(iter(job.data("train")))
    for _ in range(int(most) - len(validation)):
        with autocast(job.workload.precision, job.device):
            module(inputs)
