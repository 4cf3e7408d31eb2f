"""A plain DDP loop: a small convolutional network on random images. Nothing here knows ScaleCurve."""

import argparse

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
batch = parser.parse_args().batch_size
distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", distributed.get_node_local_rank())
    torch.cuda.set_device(device)

torch.manual_seed(0)
features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
network = nn.Sequential(features, nn.Flatten(), nn.Linear(16 * 32 * 32, 10))
model = DistributedDataParallel(network.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(4096, 3, 32, 32), torch.randint(0, 10, (4096,)))
sampler: DistributedSampler[object] = DistributedSampler(data)
for epoch in range(1000):
    sampler.set_epoch(epoch)
    for images, labels in DataLoader(data, batch, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
