"""A training whose processes may hold 1 GB of data each, or LIMIT_GB, so that a large batch does not fit."""

import os
import resource

import torch
import torch.distributed as dist

import scalecurve_worker as scalecurve

FEATURES, HIDDEN = 1024, 4096

limit = int(float(os.environ.get("LIMIT_GB", "1")) * 2**30)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
dist.init_process_group("gloo")
layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
torch.manual_seed(dist.get_rank())

with scalecurve.attach(model) as bench:
    samples = bench.samples_per_step or 1
    loader = (torch.randn(samples, FEATURES) for _ in range(1000))
    for batch in bench.steps(loader):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
