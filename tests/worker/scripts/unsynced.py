"""Windows without communication leave no trace in anyone's model: train, drift, put back, train; or train alone."""

import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalecurve_worker.rendezvous.torch_store import TorchCommunicator
from scalecurve_worker.torch.explain.unsynced import Unsynced, state_tensors, why_not


class Script:
    """A model with buffers and dropout, an optimizer with state, and a scaler."""

    def __init__(self, view: bool) -> None:
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), nn.Linear(5, 2))
        self.model = DistributedDataParallel(layers, gradient_as_bucket_view=view)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    def step(self, batch: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        for part in range(2):  # by its own flag, as nanoGPT
            self.model.require_backward_grad_sync = part == 1
            loss = self.model(batch[part::2]).square().sum() + 0 * random.random()
            self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def state(self) -> list[list[float]]:
        tensors = [tensor.flatten().tolist() for tensor in state_tensors(self.model, [self.optimizer])]
        return [*tensors, [self.scaler.get_scale(), torch.rand(1).item(), random.random()]]


def trained(view: bool, data: list[torch.Tensor], detour: bool) -> list[list[float]]:
    script = Script(view)
    torch.manual_seed(3)
    random.seed(3)
    for batch in data[:3]:
        script.step(batch)
    if detour:
        alternate = Unsynced(script.model, [script.optimizer])
        if reason := why_not(script.model, [script.optimizer]):
            failed.append(f"view {view}: not possible: {reason}")
        for _ in range(2):
            alternate.enter()
            for batch in data[:3]:
                script.step(batch)
            drifted = ranks.all_gather(next(script.model.parameters()).flatten().tolist())
            if drifted[0] == drifted[1]:
                failed.append(f"view {view}: the steps between communicated")
            alternate.leave()
    for batch in data[3:]:
        script.step(batch)
    return script.state()


dist.init_process_group("gloo")
ranks = TorchCommunicator()
generator = torch.Generator().manual_seed(dist.get_rank())
batches = [torch.randn(8, 6, generator=generator) for _ in range(6)]
failed: list[str] = []
for as_view in (False, True):
    straight, back = trained(as_view, batches, False), trained(as_view, batches, True)
    if straight != back:
        failed.append(f"view {as_view}: a trace was left:\n{straight}\n{back}")
dist.destroy_process_group()
print("\n".join(failed), file=sys.stderr, flush=True)
# Threads that torch leaves behind sometimes abort an interpreter that shuts down ("terminate called without an active
# exception"), which says nothing of what is tested here.
os._exit(bool(failed))
