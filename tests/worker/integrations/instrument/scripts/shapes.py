"""Training loops of the shapes that public scripts have; none of them knows of ScaleCurve.

shapes.py SHAPE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.optim import SGD, AdamW
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

BATCH = 4
torch.manual_seed(0)


class Net(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def group() -> tuple[int, int]:
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    return int(os.environ.get("RANK", "0")), world


def wrapped(model: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model


def data(samples: int = 26, shape: tuple[int, ...] = (8,)) -> TensorDataset:
    return TensorDataset(torch.randn(samples, *shape), torch.randint(3, (samples,)))


def loader(dataset: TensorDataset, batch: int = BATCH) -> DataLoader[tuple[Tensor, ...]]:
    sampler = DistributedSampler(dataset) if dist.is_initialized() else None
    return DataLoader(dataset, batch_size=batch, sampler=sampler, drop_last=True)


def epochs() -> range:
    return range(1000)


def images() -> None:
    """As torchvision's and PyTorch's examples: a loader, an evaluation after every epoch, a message at the end."""
    group()
    model = wrapped(Net())
    optimizer = SGD(model.parameters(), 0.01)
    train, test = loader(data()), DataLoader(data(30), batch_size=7)
    try:
        for _ in epochs():
            model.train()
            for inputs, targets in train:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            model.eval()
            for inputs, _targets in test:
                with torch.no_grad():
                    model(inputs)
    finally:
        print("the script's finally block", flush=True)
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


def tokens() -> None:
    """As nanoGPT: no loader, micro-batches, an evaluation inside of the loop on the first rank."""
    rank, _ = group()
    torch.manual_seed(rank)
    model = wrapped(Net())
    optimizer = AdamW(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for iteration in range(100_000):
        if iteration % 5 == 0 and rank == 0:
            inner = getattr(model, "module", model)
            inner.eval()
            with torch.no_grad():
                for _ in range(3):
                    inner(torch.randn(9, 8))
            inner.train()
        for micro in range(2):
            if dist.is_initialized():
                model.require_backward_grad_sync = micro == 1  # type: ignore[assignment]
            loss = nn.functional.cross_entropy(model(torch.randn(BATCH // 2, 8)), torch.randint(3, (BATCH // 2,)))
            scaler.scale(loss / 2).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)


def ahead() -> None:
    """As Accelerate and loops with a prefetcher: the next batch is taken before the update."""
    group()
    model = wrapped(Net())
    optimizer = SGD(model.parameters(), 0.01)
    for _ in epochs():
        for inputs, targets in one_ahead(iter(loader(data(28 if dist.is_initialized() else 26), 2))):
            for part in (inputs,):
                nn.functional.cross_entropy(model(part), targets).backward()
            ahead.count += 1  # type: ignore[attr-defined]
            if ahead.count % 2 == 0:  # type: ignore[attr-defined]
                optimizer.step()
                optimizer.zero_grad()


ahead.count = 0  # type: ignore[attr-defined]


def one_ahead(batches: Iterator[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    following = next(batches, None)
    while following is not None:
        current, following = following, next(batches, None)
        yield current


def sharded() -> None:
    """FSDP2, with an optimizer of its shards."""
    from torch.distributed.fsdp import fully_shard

    group()
    model = Net()
    fully_shard(model)
    optimizer = AdamW(model.parameters(), 0.01)
    for _ in epochs():
        for inputs, targets in loader(data()):
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()


def gan() -> None:
    """Two models and two optimizers; the discriminator is updated twice for every update of the generator."""
    maker, judge = nn.Linear(2, 8), nn.Linear(8, 1)
    makes, judges = SGD(maker.parameters(), 0.01), SGD(judge.parameters(), 0.01)
    for _ in epochs():
        for (real,) in DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=BATCH):
            for _ in range(2):
                judges.zero_grad()
                (judge(maker(torch.randn(BATCH, 2)).detach()).mean() - judge(real).mean()).backward()
                judges.step()
            makes.zero_grad()
            judge(maker(torch.randn(BATCH, 2))).mean().backward()
            makes.step()


def overflow() -> None:
    """fp16 with a loss scale: every fourth update is left out, for its gradients are infinite."""
    model = Net()
    optimizer, scaler = SGD(model.parameters(), 0.01), torch.amp.GradScaler("cpu", init_scale=2.0)
    step = 0
    for _ in epochs():
        for inputs, targets in loader(data()):
            optimizer.zero_grad()
            scaler.scale(nn.functional.cross_entropy(model(inputs), targets)).backward()
            if step % 4 == 3:
                next(model.parameters()).grad.fill_(torch.inf)  # type: ignore[union-attr]
            scaler.step(optimizer)
            scaler.update()
            step += 1


def sequence_first() -> None:
    """A loader whose collation puts the sequence first, and hands over a list of mappings."""
    model = nn.Linear(5, 1)
    optimizer = SGD(model.parameters(), 0.01)
    dataset = TensorDataset(torch.randn(402, 5, 5))

    def collate(items: list[tuple[Tensor, ...]]) -> list[dict[str, Tensor]]:
        return [{"steps": torch.stack([item[0] for item in items], dim=1)}]

    workers = {"num_workers": 1, "persistent_workers": True}
    batches = DataLoader(dataset, batch_size=BATCH, collate_fn=collate, drop_last=True, **workers)  # type: ignore[arg-type]
    for _ in epochs():
        for batch in batches:
            model(batch[0]["steps"]).mean().backward()
            optimizer.step()


def inside(step: int) -> None:
    """A loop that catches whatever it can."""
    model = Net()
    optimizer = SGD(model.parameters(), 0.01)
    for inputs, targets in islice(loader(data(4000)), step):
        try:
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        except:  # noqa: E722
            print("went on", flush=True)


def stubborn() -> None:
    inside(1000)


def short() -> None:
    """A script with too little to do."""
    inside(5)


def failing() -> None:
    inside(5)
    raise RuntimeError("the disk of the checkpoints is full")


def still() -> None:
    """A script that only evaluates."""
    model = Net()
    for inputs, _ in loader(data()):
        model(inputs)


def uncounted() -> None:
    """Nothing says how many samples it trains on."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = SGD([weight], 0.01)
    for _ in range(1000):
        weight.square().sum().backward()
        optimizer.step()


def attached() -> None:
    """A script that measures itself."""
    import scalecurve_worker as scalecurve

    group()
    model = wrapped(Net())
    optimizer = SGD(model.parameters(), 0.01)
    bench = scalecurve.attach(model)
    for inputs, targets in bench.steps(loader(data(4000))):
        for _ in range(2):  # two updates are one step here
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    bench.finish()
    print("after finish()", flush=True)


def spawned_rank(local: int, world: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["OWN_PORT"])
    dist.init_process_group("gloo", rank=local, world_size=world)
    model = wrapped(Net())
    optimizer = SGD(model.parameters(), 0.01)
    for _ in epochs():
        for inputs, targets in loader(data(64)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


def spawns() -> None:
    """As the first script of PyTorch's DDP tutorial: it starts its own ranks."""
    world = int(os.environ["OWN_RANKS"])
    mp.spawn(spawned_rank, args=(world,), nprocs=world)
    print("all ranks have ended", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
