"""A plain DDP loop, as its user has it: nothing here knows ScaleCurve."""

import argparse

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
batch = parser.parse_args().batch_size
distributed.init_process_group("gloo")
torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
model = DistributedDataParallel(layers)
data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 8, (4096,)))
sampler: DistributedSampler[object] = DistributedSampler(data)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(1000):
    sampler.set_epoch(epoch)
    for inputs, targets in DataLoader(data, batch, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
