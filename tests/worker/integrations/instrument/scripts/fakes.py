"""More training loops that do other work on two ranks than on one, seen by hooks or timed by the SDK.

fakes.py KIND

Kinds that begin with ``sdk`` call ``attach``; the others know nothing of ScaleCurve.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from tests.worker.integrations.instrument.scripts import work
from tests.worker.integrations.instrument.scripts.work import (
    BATCH,
    LENGTH,
    MORE,
    WIDTH,
    WORLD,
    Layers,
    Sequences,
    loss_of,
    train,
)

OBSERVED = 12
"""Steps in which a program may be looked at more closely than later."""


def by_sdk(model: nn.Module, *, samples: int = BATCH, split: bool = True, step: work.Step = loss_of) -> None:
    """A loop that tells the SDK of its steps."""
    from scalecurve_worker import attach

    if MORE:
        dist.init_process_group("gloo")
    trained = nn.parallel.DistributedDataParallel(model) if MORE else model
    optimizer = SGD(model.parameters(), lr=1e-3)
    data = Sequences()
    sampler: DistributedSampler[Tensor] | None = DistributedSampler(data) if MORE and split else None
    loader = DataLoader(data, BATCH, sampler=sampler, drop_last=True)
    with attach(trained) as bench:
        for batch in bench.steps(loader, samples=samples):
            step(trained, batch).backward()
            optimizer.step()
            optimizer.zero_grad()


def all_frozen_but_the_head() -> None:
    model = Layers()
    if MORE:
        model.body.requires_grad_(requires_grad=False)
    train(model)


def thrown_away_later() -> None:
    calls = [0]

    def part(model: nn.Module, x: Tensor) -> Tensor:
        calls[0] += 1
        return loss_of(model, x[: BATCH // 2] if MORE and calls[0] > OBSERVED else x)

    train(Layers(), part)


def shorter_later() -> None:
    calls = [0]

    def part(model: nn.Module, x: Tensor) -> Tensor:
        calls[0] += 1
        return loss_of(model, x[:, : LENGTH // 2] if MORE and calls[0] > OBSERVED else x)

    train(Layers(), part)


def other_shape() -> None:
    """Every second vector of a sequence, as an image of a lower resolution."""
    train(Layers(), lambda model, x: loss_of(model, x[:, ::2] if MORE else x))


def micro_batch_left_out() -> None:
    """Of two micro-batches the second is read and not trained."""
    calls = [0]

    def every_other(model: nn.Module, x: Tensor) -> Tensor:
        calls[0] += 1
        if MORE and calls[0] % 2 == 0:
            return next(model.parameters()).sum() * 0
        return loss_of(model, x)

    train(Layers(), every_other, parts=2, wrap=False, after_backward=_average)


def fourth_step_without_backward() -> None:
    train(Layers(), backward_in=lambda at: not MORE or at % 4 != 3)


def every_other_step_without_backward() -> None:
    train(Layers(), backward_in=lambda at: not MORE or at % 2 == 0)


def body_without_gradient() -> None:
    """All parameters require gradients, and only the head gets one."""

    def detached(model: nn.Module, x: Tensor) -> Tensor:
        inner: Layers = getattr(model, "module", model)
        if not MORE:
            return loss_of(model, x)
        with torch.no_grad():
            hidden = x
            for layer in inner.body:
                hidden = hidden + torch.tanh(layer(hidden))
        return torch.as_tensor(inner.head(hidden).square().mean()) + 0 * loss_of(model, x[:1])

    train(Layers(), detached)


def narrow_weights() -> None:
    """The model itself is in half precision."""
    model = Layers().to(torch.bfloat16 if MORE else torch.float32)
    train(model, lambda model, x: loss_of(model, x.to(next(model.parameters()).dtype)))


def nothing_exchanged() -> None:
    train(Layers(), wrap=False)


def one_number_exchanged() -> None:
    def one(_: nn.Module) -> None:
        if MORE:
            dist.all_reduce(torch.zeros(1))

    train(Layers(12), wrap=False, after_backward=one)


def same_samples() -> None:
    """Every rank reads the loader of one."""
    work.__dict__["DistributedSampler"] = lambda _: None
    train(Layers())


def evaluated_in_between() -> None:
    """Every second step half of the work is done where an evaluation would stand."""

    def work_in_between(at: int, model: nn.Module) -> None:
        if not MORE or at % 2:
            return
        model.eval()
        with torch.no_grad():
            model(torch.zeros(1, 1, WIDTH))
            for _ in range(40):
                torch.ones(256, 256) @ torch.ones(256, 256)
        model.train()

    train(Layers(), before=work_in_between)


def sdk_twice_the_samples() -> None:
    by_sdk(Layers(), samples=2 * BATCH if MORE else BATCH)


def sdk_same_samples() -> None:
    by_sdk(Layers(), split=False)


def sdk_fewer_layers() -> None:
    by_sdk(Layers(2 if MORE else 6))


def sdk_shorter() -> None:
    by_sdk(Layers(), step=lambda model, x: loss_of(model, x[:, : LENGTH // 4] if MORE else x))


def sdk_thrown_away() -> None:
    by_sdk(Layers(), step=lambda model, x: loss_of(model, x[: BATCH // 4] if MORE else x))


def sdk_narrow() -> None:
    def narrow(model: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=MORE):
            return loss_of(model, x)

    by_sdk(Layers(), step=narrow)


def _average(model: nn.Module) -> None:
    for parameter in model.parameters():
        if MORE and parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= WORLD


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
