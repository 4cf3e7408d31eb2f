"""A DDP loop with two switches that make it wrong."""

import argparse

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--mistake", choices=["none", "not-wrapped", "same-data"], required=True)
mistake = parser.parse_args().mistake
distributed.init_process_group("gloo")
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
model = network if mistake == "not-wrapped" else DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(0 if mistake == "same-data" else distributed.get_rank())
while True:
    inputs, labels = torch.randn(32, 256), torch.randint(0, 10, (32,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
