"""Scripts of anyone's, each of CASES wrapped in another way; a language model of one block, or a network with state."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import scalecurve_worker as scalecurve

OUT = Path(os.environ["SCALECURVE_OUT"])
BATCH, LENGTH, VOCABULARY, WIDTH = 4, 16, 32, 24


class Language(nn.Module):
    """As nanoGPT: the loss comes with the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * WIDTH, WIDTH))
        self.norm = nn.BatchNorm1d(LENGTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.head(self.norm(self.inner(self.embedding(tokens))))
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def wrapped(case: str) -> nn.Module:
    torch.manual_seed(1)
    if case.startswith("fsdp"):
        layers = [nn.Linear(64, 33), nn.ReLU(), nn.Linear(33, 1)]
        bare: nn.Module = nn.Sequential(*layers)
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        if case == "fsdp2":
            fully_shard(layers[0], mesh=mesh)
            return fully_shard(bare, mesh=mesh)
        bare[0] = FullyShardedDataParallel(layers[0], use_orig_params=case == "fsdp1-original", device_id=CPU)
        return FullyShardedDataParallel(bare, use_orig_params=case == "fsdp1-original", device_id=CPU)
    model = Language()
    return model if case == "late" else DistributedDataParallel(model)


CPU = torch.device("cpu")


def train(case: str) -> None:
    """Two micro-batches a step under DDP, with the flag of ``no_sync`` set by hand."""
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(rank)
    model = wrapped(case)
    language = not case.startswith("fsdp")
    with scalecurve.attach(model, unit="tokens" if language else "samples") as bench:
        if case == "late":
            model = DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        while bench.step(samples=BATCH):
            optimizer.zero_grad(set_to_none=True)
            for part in range(2 if language else 1):
                if isinstance(model, DistributedDataParallel):
                    model.require_backward_grad_sync = part == 1
                with bench.loading:
                    batch = text(generator) if language else torch.randn(BATCH, 64, generator=generator)
                loss = model(batch[:, :-1], batch[:, 1:])[1] if language else model(batch).square().mean()
                loss.backward()
                if language:
                    bench.tokens(BATCH // 2 * LENGTH)
            optimizer.step()
            bench.loss(loss)


def text(generator: torch.Generator) -> torch.Tensor:
    return torch.randint(VOCABULARY, (BATCH // 2, LENGTH + 1), generator=generator)


dist.init_process_group("gloo")
for name in os.environ["CASES"].split():
    os.environ["SCALECURVE_OUT"] = str(OUT / name)
    train(name)
dist.destroy_process_group()
