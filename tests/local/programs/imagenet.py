"""As PyTorch's ImageNet example on CPUs, written anew: it joins a group, splits the data, and never wraps the model.

With --ddp it does.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import scalecurve_worker as scalecurve


def main() -> None:
    dist.init_process_group("gloo")
    model: nn.Module = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    dataset = TensorDataset(torch.randn(32, 3, 16, 16), torch.randint(10, (32,)))
    loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
    model(dataset.tensors[0][:1])
    if torch.cuda.is_available() or "--ddp" in sys.argv:
        model = nn.parallel.DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    bench = scalecurve.attach(model)
    for images, target in bench.steps(loader):
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    bench.finish()
    dist.destroy_process_group()


main()
