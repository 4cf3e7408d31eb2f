"""How good a model is on a validation set: right answers and loss over it."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scalecurve_api.programs.workload import Precision
from scalecurve_worker.torch.data import Loader
from scalecurve_worker.torch.models import cross_entropy
from scalecurve_worker.torch.precision import autocast
from scalecurve_worker.torch.sharding import local_elements
from scalecurve_worker.torch.transfer import train_mode


def evaluate(
    module: nn.Module, validation: Loader, precision: Precision, device: torch.device, training: Loader
) -> tuple[int, int, float]:
    """Correct answers, answers and summed loss over this rank's share of the validation set. Collective.

    A batch of ``training`` keeps ranks in step that have fewer batches than others.
    """
    bare = bare_module(module)
    if dist.is_initialized() and dist.get_world_size() > 1:
        # Batch norm's statistics are each rank's own; the model that is judged is rank 0's, as a checkpoint would be.
        for buffer in bare.buffers():
            dist.broadcast(buffer, 0)
    right = torch.zeros((), dtype=torch.int64, device=device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    counted = 0
    bare.eval()
    # Not inference_mode: FSDP's gathered parameters must still be of use to the next step.
    with torch.no_grad():
        for inputs, targets in validation:
            with autocast(precision, device):
                logits: Tensor = bare(inputs)
                loss += cross_entropy(logits, targets).double() * targets.numel()
            right += (logits.argmax(-1) == targets).sum()
            counted += targets.numel()
        if local_elements(bare) is not None:
            _keep_up(bare, validation, precision, device, training)
    train_mode(bare)
    return int(right), counted, float(loss)


def bare_module(module: nn.Module) -> nn.Module:
    """The model itself, without DistributedDataParallel or DataParallel around it."""
    bare = getattr(module, "module", module)
    assert isinstance(bare, nn.Module)
    return bare


def _keep_up(
    module: nn.Module, validation: Loader, precision: Precision, device: torch.device, training: Loader
) -> None:
    """A forward pass that gathers parameters is a collective: go on until the rank with most batches has ended."""
    most = torch.tensor(len(validation), device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    inputs, _ = next(iter(training))
    for _ in range(int(most) - len(validation)):
        with autocast(precision, device):
            module(inputs)
