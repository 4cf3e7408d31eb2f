"""Compares a layout with one process before it is timed: losses of three steps, and every parameter's gradient."""

from math import isfinite

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from scalecurve_api.features.layouts.facts import Equality
from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.programs.workload import Precision
from scalecurve_worker.features.layouts.layout import LaidOut
from scalecurve_worker.features.layouts.reference import (
    TOLERANCES,
    Reference,
    disable_dropout,
    parts_of,
    restore_dropout,
    sampled,
)
from scalecurve_worker.features.layouts.updates import LayoutTrainer, group_parameters
from scalecurve_worker.torch.data import Batch

_NOT_FINITE = 1e30
_FLOOR = 1e-3
"""Of the norm of all gradients: one that is zero but for rounding, as a key's bias has, is compared with that"""


def compare(
    trainer: LayoutTrainer, reference: Reference, batch: Batch, parts: int, precision: Precision, device: torch.device
) -> Equality:
    """Train the layout on its samples by plain gradient descent, and put its parameters back. Collective."""
    laid = trainer.laid
    degrees = laid.meshes.degrees
    group = degrees.data_rank(dist.get_rank())
    own = list(parts_of(batch, degrees.data * parts, device))[group * parts : (group + 1) * parts]
    kept = [_local(each).clone() for each in _state(laid)]
    dropout = disable_dropout(laid.module)
    rate = torch.tensor([reference.rate], dtype=torch.float64)
    descent = torch.optim.SGD([{"params": each} for each in group_parameters(laid.module)], lr=float(rate))
    losses: list[Tensor] = []
    errors: dict[str, float] = {}
    for step in range(len(reference.losses[group])):
        loss = trainer.update(descent if step else None, own)
        if step == 0:
            errors = _gradient_errors(laid, reference)
            descent.step()
        if loss is not None:
            losses.append(loss)
    with torch.no_grad():
        for tensor, before in zip(_state(laid), kept, strict=True):
            _local(tensor).copy_(before)
    restore_dropout(dropout)
    for parameter in laid.module.parameters():
        parameter.grad = None
    worst = max(errors, key=lambda name: (errors[name] != errors[name], errors[name]))
    tolerances = TOLERANCES[precision]
    return Equality(
        losses=[_finite(float(each)) for each in _average_over_context(losses, laid)],
        reference=[_finite(each) for each in reference.losses[group]],
        loss_tolerance=tolerances.loss,
        gradient_error=_finite(errors[worst]),
        gradient_tolerance=tolerances.gradient,
        parameter=worst,
        parameters=len(errors),
        how=f"{len(reference.losses[group])} steps of gradient descent on {degrees.data * parts} micro-batches",
    )


def _gradient_errors(laid: LaidOut, reference: Reference) -> dict[str, float]:
    errors = {}
    for name, parameter in laid.module.named_parameters():
        known = reference.gradients.get(original := laid.name_of(name))
        if known is None:
            continue
        if parameter.grad is None:
            errors[original] = _NOT_FINITE
            continue
        own = sampled(laid.whole(original, parameter.grad))
        share = (known.numel() / sum(each.numel() for each in reference.gradients.values())) ** 0.5
        scale = float(known.norm()) + _FLOOR * reference.norm * max(share, 1e-3)
        same = own.shape == known.shape
        errors[original] = max(errors.get(original, 0.0), float((own - known).norm()) / scale if same else _NOT_FINITE)
    return errors


def _average_over_context(losses: list[Tensor], laid: LaidOut) -> list[Tensor]:
    """Means over the parts of the sequences, which several workers have."""
    if laid.meshes.degrees.context == 1:
        return losses
    for loss in losses:
        dist.all_reduce(loss, group=laid.meshes.group(Dimension.context))
        loss /= laid.meshes.degrees.context
    return losses


def _finite(value: float) -> float:
    """A record has no NaN: no comparison holds for a number as large as this one."""
    return value if isfinite(value) else _NOT_FINITE


def _state(laid: LaidOut) -> list[Tensor]:
    return [*laid.module.parameters(), *laid.module.buffers()]


def _local(tensor: Tensor) -> Tensor:
    local = tensor.detach()
    return local.to_local() if isinstance(local, DTensor) else local
