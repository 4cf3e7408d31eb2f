"""A script with nn.DataParallel, of which one process drives two GPUs that this machine feigns.

data_parallel.py both|first|bare

A pass of the second replica begins on the meta device, which stands for another GPU, and computes on the CPU.
"""

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.process.topology import topology
from scalecurve_worker.torch import attach


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.elsewhere = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.layer(self.elsewhere if x.is_meta else x))


class OnTwo(nn.DataParallel[Net]):
    """As torch's: the batch is scattered, and the outputs are gathered."""

    def __init__(self, module: Net) -> None:
        nn.Module.__init__(self)
        self.module, self.device_ids = module, [0, 1]

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        mine, other = x.chunk(2)
        self.module.elsewhere = other
        return torch.cat([self.module(mine), self.module(other if KIND == "first" else other.to("meta"))])


KIND = sys.argv[1]
attach.__dict__["topologies_on"] = lambda gpus: [
    topology(RankIdentity(rank, len(gpus), rank)).model_copy(update={"device": f"GPU-{rank}", "cores": [rank]})
    for rank in gpus
]
net = Net()
model = nn.DataParallel(net) if KIND == "bare" else OnTwo(net)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8, shuffle=True)
for _ in range(1000):
    for (x,) in loader:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
