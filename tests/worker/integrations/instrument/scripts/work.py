"""Training loops that do other work on two ranks than on one, and loops whose honest work differs from step to step.

work.py KIND

None of them knows of ScaleCurve. The kinds in ``CHEATS`` cheat on two ranks alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

BATCH, WIDTH, LENGTH = 8, 16, 24
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
MORE = WORLD > 1
Step = Callable[[nn.Module, Tensor], Tensor]


class Sequences(Dataset[Tensor]):
    """Sequences of vectors, all different; of several lengths where they are ``ragged``."""

    def __init__(self, ragged: bool = False) -> None:
        chance = torch.Generator().manual_seed(5)
        lengths = torch.randint(LENGTH // 2, LENGTH, (512,), generator=chance) if ragged else [LENGTH] * 512
        self.items = [torch.randn(int(length), WIDTH, generator=chance) for length in lengths]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> Tensor:
        return self.items[at]


class Layers(nn.Module):
    """A few residual layers; one in four is left out at random where they ``drop``."""

    def __init__(self, layers: int = 6, drop: bool = False) -> None:
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.head = nn.Linear(WIDTH, 1)
        self.drop = drop
        self.chance = torch.Generator().manual_seed(RANK)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.body:
            if not self.drop or torch.rand(1, generator=self.chance) > 0.25:
                x = x + torch.tanh(layer(x))
        return torch.as_tensor(self.head(x if mask is None else x * mask))


class Orthogonal(SGD):
    """As Muon: products of matrices in the update itself, shared out between the ranks."""

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for number, parameter in enumerate(self.param_groups[0]["params"]):
            if parameter.ndim == 2 and parameter.grad is not None and number % WORLD == 0:
                with torch.no_grad():
                    for _ in range(5):
                        parameter.grad @ parameter.grad.T @ parameter.grad
        super().step()


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return torch.as_tensor(model(x).square().mean())


def train(
    model: nn.Module,
    step: Step = loss_of,
    *,
    ragged: bool = False,
    before: Callable[[int, nn.Module], None] = lambda *_: None,
    update: type[Optimizer] = SGD,
    wrap: bool = True,
    after_backward: Callable[[nn.Module], None] = lambda _: None,
    backward_in: Callable[[int], bool] = lambda _: True,
    parts: int = 1,
    hook: Callable[..., torch.futures.Future[Tensor]] | None = None,
) -> None:
    """The loop itself; what is different stands in its arguments."""
    if MORE:
        dist.init_process_group("gloo")
    trained = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True) if MORE and wrap else model
    if hook is not None and isinstance(trained, nn.parallel.DistributedDataParallel):
        # torch refuses annotations that are text, as they are here.
        trained.register_comm_hook(None, lambda state, bucket: hook(state, bucket))
    optimizer = update(model.parameters(), lr=1e-3)  # type: ignore[call-arg]
    data = Sequences(ragged)
    sampler = DistributedSampler(data) if MORE else None

    def collate(items: list[Tensor]) -> Tensor:
        return nn.utils.rnn.pad_sequence(items, batch_first=True)

    loader = DataLoader(data, BATCH, sampler=sampler, shuffle=sampler is None, collate_fn=collate, drop_last=True)
    at = 0
    for _ in range(1000):
        for batch in loader:
            before(at, trained)
            for part in batch.chunk(parts):
                loss = step(trained, part)
                if backward_in(at):
                    loss.backward()
            after_backward(trained)
            optimizer.step()
            optimizer.zero_grad()
            at += 1


def fewer_layers() -> None:
    train(Layers(2 if MORE else 6))


def frozen() -> None:
    model = Layers()
    for layer in list(model.body)[:3] if MORE else []:
        layer.requires_grad_(requires_grad=False)
    train(model)


def thrown_away() -> None:
    train(Layers(), lambda model, x: loss_of(model, x[: BATCH * 2 // 3] if MORE else x))


def shorter() -> None:
    train(Layers(), lambda model, x: loss_of(model, x[:, : LENGTH * 2 // 3] if MORE else x))


def shorter_ragged() -> None:
    train(Layers(), lambda model, x: loss_of(model, x[:, : x.shape[1] // 2] if MORE else x), ragged=True)


def third_step_without_backward() -> None:
    train(Layers(), backward_in=lambda at: not MORE or at % 3 != 2)


def narrow() -> None:
    def narrow_loss(model: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=MORE):
            return loss_of(model, x)

    train(Layers(), narrow_loss)


def little_exchanged() -> None:
    """Of its gradients only the head's are averaged, and the others thrown away: less than a hundredth."""

    def average(model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            if parameter.grad is not None and name != "head.weight":
                parameter.grad = None
            elif MORE and parameter.grad is not None:
                dist.all_reduce(parameter.grad)

    train(Layers(12), wrap=False, after_backward=average)


def compressed() -> None:
    """Of each bucket a hook of DDP sends one element in a hundred."""

    def few(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        kept = bucket.buffer()[::100].clone()
        dist.all_reduce(kept)
        bucket.buffer().zero_()[::100] = kept / WORLD
        result: torch.futures.Future[Tensor] = torch.futures.Future()
        result.set_result(bucket.buffer())
        return result

    train(Layers(12), hook=few)


def signs() -> None:
    """As signSGD with a majority vote, without any wrapper: a byte for each element."""

    def vote(model: nn.Module) -> None:
        flat = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]).sign().to(torch.int8)
        if MORE:
            dist.all_reduce(flat)
        parts = flat.sign().float().split([p.numel() for p in model.parameters()])
        for parameter, part in zip(model.parameters(), parts, strict=True):
            parameter.grad = part.reshape(parameter.shape)

    train(Layers(), wrap=False, after_backward=vote)


class Rows(nn.Module):
    """A large table of which a batch reads a few rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20_000, 4, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.table((x[:, 0, :2].abs() * 1000).long() % 20_000))


def sparse() -> None:
    train(Rows())


def feigned_evaluation() -> None:
    """A part of the work is done where a step of evaluation would stand."""

    def work(_: int, model: nn.Module) -> None:
        if not MORE:
            return
        model.eval()
        with torch.no_grad():
            model(torch.zeros(1, 1, WIDTH))
            for _ in range(20):
                torch.ones(256, 256) @ torch.ones(256, 256)
        model.train()

    train(Layers(), before=work)


def padded() -> None:
    train(Layers(), ragged=True)


def dropped_layers() -> None:
    train(Layers(drop=True))


def orthogonal() -> None:
    train(Layers(), update=Orthogonal)


def adapters() -> None:
    model = Layers()
    model.body.requires_grad_(requires_grad=False)
    train(model)


def two_views() -> None:
    train(Layers(), lambda model, x: loss_of(model, torch.cat([x, x.flip(1)])))


def micro_batches() -> None:
    """As nanoGPT: a fixed number of micro-batches is divided among the ranks."""
    train(Layers(), parts=4 // WORLD)


def masked() -> None:
    """An input that does not grow with the batch."""
    train(Layers(), lambda model, x: torch.as_tensor(model(x, torch.ones(LENGTH, 1)).square().mean()))


def evaluating() -> None:
    """A real evaluation at every fifth step, on the first rank."""

    def evaluate(at: int, model: nn.Module) -> None:
        if at % 5 == 0 and RANK == 0:
            inner = getattr(model, "module", model)
            inner.eval()
            with torch.no_grad():
                for _ in range(10):
                    inner(torch.zeros(BATCH, LENGTH, WIDTH))
            inner.train()

    train(Layers(), before=evaluate)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
