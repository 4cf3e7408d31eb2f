"""What one process computes on a layout's samples: the losses and gradients that the layout is compared with."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.programs.workload import Precision
from scalecurve_worker.features.layouts.updates import Loss
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.device import autocast

STEPS = 3
RELATIVE_STEP = 0.01
"""Of the parameters' norm: each update moves them by at most so much, so that losses depend on gradients"""
LOSS_STEP = 0.1
"""Of the loss: to first order, each update lowers it by at most so much.

Larger ones leave where the loss is linear: a ResNet-20 at 0.01 of its norm overshoots, and three steps in fp32 then
differ from the same in fp64 by 1e-3, more than the tolerance of a layout.
"""
_KEPT = 65_536
"""Elements of each gradient that are compared, evenly spaced"""


class Tolerances(NamedTuple):
    """Relative; see ``Equality``."""

    loss: float
    gradient: float


TOLERANCES = {
    Precision.fp32: Tolerances(1e-4, 1e-3),
    Precision.tf32: Tolerances(1e-3, 2e-2),
    Precision.bf16: Tolerances(2e-2, 0.2),
}
"""fp32 sums are added up in another order; bf16 rounds to 8 bits in the layout and, elsewhere, in the reference"""


@dataclass(frozen=True)
class Reference:
    """``gradients`` has the sampled elements of each parameter's first gradient, and ``norm`` that of all of them."""

    losses: list[list[float]]
    gradients: dict[str, Tensor]
    norm: float
    rate: float


def sampled(tensor: Tensor) -> Tensor:
    """Sample evenly spaced elements, in fp32 in host memory."""
    flat = tensor.detach().flatten()
    return flat[:: max(1, -(-flat.numel() // _KEPT))].float().cpu()


def check_batches(degrees: Degrees, parts: int, shape: tuple[int, ...], classes: int, tokens: bool, seed: int) -> Batch:
    """Generate one sample for each part of each data-parallel group, equal on every rank."""
    generator = torch.Generator().manual_seed(seed)
    count = degrees.data * parts
    if tokens:
        text = torch.randint(classes, (count, shape[0] + 1), generator=generator)
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()
    size = 2 * count  # batch norm needs two samples in a part
    return torch.randn((size, *shape), generator=generator), torch.randint(classes, (size,), generator=generator)


def parts_of(batch: Batch, parts: int, device: torch.device) -> Iterator[Batch]:
    """Yield equal parts of a batch, in order, on the device."""
    inputs, targets = batch
    for x, y in zip(inputs.chunk(parts), targets.chunk(parts), strict=True):
        yield x.to(device), y.to(device)


def disable_dropout(model: nn.Module) -> list[tuple[nn.Dropout, float]]:
    """Switch dropout off, and give what :func:`restore_dropout` puts back: no two ways draw the same numbers."""
    layers = [(layer, layer.p) for layer in model.modules() if isinstance(layer, nn.Dropout)]
    for layer, _ in layers:
        layer.p = 0.0
    return layers


def restore_dropout(layers: list[tuple[nn.Dropout, float]]) -> None:
    """Put dropout back as it was."""
    for layer, share in layers:
        layer.p = share


def one_process(
    model: nn.Module, batch: Batch, degrees: Degrees, parts: int, loss: Loss, precision: Precision, device: torch.device
) -> Reference:
    """Train a copy of the model on all samples by plain gradient descent.

    ``losses`` are, for each data-parallel group, the mean over its samples in every step.
    """
    alone = copy.deepcopy(model)
    disable_dropout(alone)
    gradients: dict[str, Tensor] = {}
    losses: list[list[float]] = [[] for _ in range(degrees.data)]
    rate = norm = 0.0
    for step in range(STEPS):
        alone.zero_grad()
        means = torch.zeros(degrees.data)
        for index, (x, y) in enumerate(parts_of(batch, degrees.data * parts, device)):
            with autocast(precision, device):
                value = loss(alone(x), y)
            torch.autograd.backward(value / (degrees.data * parts))
            means[index // parts] += value.detach().float().cpu() / parts
        for group, mean in zip(losses, means.tolist(), strict=True):
            group.append(mean)
        if step == 0:
            trained = {name: each for name, each in alone.named_parameters() if each.grad is not None}
            gradients = {name: sampled(each.grad) for name, each in trained.items() if each.grad is not None}
            norm = _norm([each.grad for each in trained.values() if each.grad is not None])
            most = LOSS_STEP * sum(group[0] for group in losses) / degrees.data
            rate = min(RELATIVE_STEP * _norm(list(trained.values())), most / max(norm, 1e-30)) / max(norm, 1e-30)
        with torch.no_grad():
            for parameter in alone.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=rate)
    return Reference(losses, gradients, norm, rate)


def _norm(tensors: list[Tensor]) -> float:
    return float(torch.stack([each.detach().float().norm() for each in tensors]).norm())
