"""Windows without communication leave no trace in anyone's training: train, drift, put back, train; or train alone."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel

from scalecurve_worker.rendezvous.torch_store import TorchCommunicator
from scalecurve_worker.torch.explain.kept_state import Copies, NotKeptError
from scalecurve_worker.torch.explain.unsynced import Unsynced, state_of


class GroupState(torch.optim.Optimizer):
    """Keeps what it learned of the step size in its groups, as Prodigy and schedule-free optimizers do."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "seen": 0.0, "k": 0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["k"] += 1
            group["seen"] += sum(float(p.grad.norm() ** 2) for p in group["params"]) ** 0.5
            group["weights"] = torch.tensor([group["seen"]])  # a new tensor each time
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"] * group["k"] / float(group["weights"]))


class Nested(torch.optim.Optimizer):
    """Lists of matrices in its state, each replaced now and then, and noise of its own, as Shampoo and Langevin's."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.01})
        self.noise = torch.Generator().manual_seed(1)
        self.steps: list[int] = []

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        self.steps.append(len(self.steps))
        for p in (p for group in self.param_groups for p in group["params"]):
            rows = p.grad.reshape(len(p), -1)
            held = self.state[p].setdefault("factors", [torch.eye(len(p)), {"count": 0}])
            held[0] = held[0] + rows @ rows.T
            held[1]["count"] += 1
            p.add_(torch.linalg.solve(held[0], rows).reshape(p.shape), alpha=-self.param_groups[0]["lr"])
            p.add_(torch.randn(p.shape, generator=self.noise), alpha=1e-3 / held[1]["count"])


class Sharp(torch.optim.Optimizer):
    """Around another optimizer, as SAM."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"rho": 0.05})
        self.base = torch.optim.SGD(self.param_groups, lr=1e-3, momentum=0.9)

    @torch.no_grad()
    def climb(self) -> None:
        for p in (p for group in self.param_groups for p in group["params"]):
            self.state[p]["old"] = p.clone()
            p.add_(p.grad, alpha=0.05)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for p in (p for group in self.param_groups for p in group["params"]):
            p.copy_(self.state[p]["old"])
        self.base.step()


class Trust:
    """Around an optimizer without being one, as some LARS; scales gradients by a running norm."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def step(self) -> None:
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                group["norm"] = 0.9 * group.get("norm", 1.0) + 0.1 * float(p.grad.norm())
                p.grad.mul_(1 / group["norm"])
        self.optimizer.step()


class Average:
    """An average of weights of the script's own, updated in place."""

    def __init__(self, model: nn.Module) -> None:
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.updates = 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.updates += 1
        decay = min(0.9, self.updates / (self.updates + 1))
        for name, p in model.named_parameters():
            self.mix(name, p, decay)

    def mix(self, name: str, p: Tensor, decay: float) -> None:
        self.shadow[name].mul_(decay).add_(p, alpha=1 - decay)


class NewAverage(Average):
    """The same with new tensors at every step."""

    def mix(self, name: str, p: Tensor, decay: float) -> None:
        self.shadow[name] = decay * self.shadow[name] + (1 - decay) * p


class Script:
    """A model with buffers and dropout, whatever optimizer, and a scaler, schedule or average where there is one."""

    def __init__(self, case: str) -> None:
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), nn.Linear(5, 2))
        self.case = case
        self.model = DistributedDataParallel(layers, gradient_as_bucket_view=case == "scaler, views")
        make: Callable[[Any], Any] = OPTIMIZERS.get(case, lambda params: torch.optim.AdamW(params, lr=0.05))
        self.optimizer = make(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2, enabled="scaler" in case)
        self.schedules = [OneCycleLR(self.optimizer, 0.1, total_steps=60)] if case == "schedule" else []
        self.plateau = ReduceLROnPlateau(self.optimizer, patience=0) if case == "plateau" else None
        self.averaged = AveragedModel(self.model) if case == "averaged model" else None
        own = {"average": Average, "new average": NewAverage}.get(case)
        self.average = own(layers) if own else None
        self.losses: list[float] = []

    def step(self, batch: Tensor) -> None:
        self.optimizer.zero_grad()
        for part in range(2):  # by its own flag, as nanoGPT
            self.model.require_backward_grad_sync = part == 1
            loss = self.model(batch[part::2]).square().sum() + 0 * random.random()
            self.scaler.scale(loss).backward()
        if self.case == "sharp":
            self.optimizer.climb()
            self.model(batch).square().sum().backward()
        if self.case == "trust":
            Trust(self.optimizer).step()
        else:
            self.scaler.step(self.optimizer)
        self.scaler.update()
        for schedule in self.schedules:
            schedule.step()
        if self.plateau:
            self.plateau.step(float(loss))
        if self.averaged:
            self.averaged.update_parameters(self.model)
        if self.average:
            self.average.update(self.model.module)
        self.losses.append(float(loss))

    def result(self) -> list[Any]:
        kept = [*self.model.parameters(), *self.model.buffers()]
        kept += [*self.averaged.parameters(), self.averaged.n_averaged] if self.averaged else []
        kept += [*self.average.shadow.values()] if self.average else []
        return [
            [tensor.flatten().tolist() for tensor in kept],
            [self.scaler.get_scale(), torch.rand(1).item(), random.random(), self.losses[-3:]],
            [group["lr"] for group in self.optimizer.param_groups if "lr" in group],
        ]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "fused": lambda params: torch.optim.AdamW(params, lr=0.05, fused=True),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9),
    "adafactor": lambda params: torch.optim.Adafactor(params, lr=0.05),
    "group": GroupState,
    "nested": Nested,
    "sharp": Sharp,
    "trust": lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9),
    "plateau": lambda params: torch.optim.RMSprop(params, lr=0.05),
}
CASES = (*OPTIMIZERS, "scaler", "scaler, views", "schedule", "averaged model", "average")
REFUSED = {"new average": "new copies of its weights"}


def trained(case: str, data: list[Tensor], detour: bool) -> list[Any]:
    script = Script(case)
    torch.manual_seed(3)
    random.seed(3)
    script.step(data[0])
    copies = Copies(script.model)
    for batch in data[1:3]:
        script.step(batch)
    if detour:
        alternate = Unsynced(script.model, state_of(script.model, [script.optimizer], copies))
        for _ in range(2):
            alternate.enter()
            for batch in data[:3]:
                script.step(batch)
            drifted = ranks.all_gather(next(script.model.parameters()).flatten().tolist())
            if drifted[0] == drifted[1]:
                failed.append(f"{case}: the steps between communicated")
            alternate.leave()
    for batch in data[3:]:
        script.step(batch)
    return script.result()


dist.init_process_group("gloo")
ranks = TorchCommunicator()
generator = torch.Generator().manual_seed(dist.get_rank())
batches = [torch.randn(8, 6, generator=generator) for _ in range(6)]
failed: list[str] = []
for name in CASES:
    straight, back = trained(name, batches, False), trained(name, batches, True)
    if straight != back:
        failed.append(f"{name}: a trace was left:\n{straight}\n{back}")
for name, why in REFUSED.items():
    try:
        trained(name, batches, True)
        failed.append(f"{name}: not refused")
    except NotKeptError as error:
        if why not in str(error):
            failed.append(f"{name}: refused for {error}")
dist.destroy_process_group()
print("\n".join(failed), file=sys.stderr, flush=True)
# Threads that torch leaves behind sometimes abort an interpreter that shuts down ("terminate called without an active
# exception"), which says nothing of what is tested here.
os._exit(bool(failed))
