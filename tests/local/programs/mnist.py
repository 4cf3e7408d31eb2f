"""As PyTorch's MNIST example, written anew: a script of one process, which as two ranks are two strangers.

With --ddp it joins a group, wraps the model and splits the data.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import scalecurve_worker as scalecurve


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.linear = nn.Linear(8 * 13 * 13, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.linear(F.max_pool2d(F.relu(self.conv(images)), 2).flatten(1)), dim=1)


def main() -> None:
    torch.manual_seed(1)
    digits = TensorDataset(torch.randn(64, 1, 28, 28), torch.randint(10, (64,)))
    model: nn.Module = Net()
    loader = DataLoader(digits, 4, shuffle=True)
    if "--ddp" in sys.argv:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
        loader = DataLoader(digits, 4, sampler=DistributedSampler(digits))
    optimizer = torch.optim.Adadelta(model.parameters())
    bench = scalecurve.attach(model)
    for data, target in bench.steps(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        bench.loss(loss.detach())
    bench.finish()


main()
