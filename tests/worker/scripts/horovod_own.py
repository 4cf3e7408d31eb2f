"""A user's own Horovod script under mpirun; with STRANGERS set it forgets to wrap its optimizer."""

from __future__ import annotations

import os

import horovod.torch as hvd
import torch

import scalecurve_worker as scalecurve

hvd.init()
torch.manual_seed(0)
model = torch.nn.Linear(200, 30)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if "STRANGERS" not in os.environ:
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
generator = torch.Generator().manual_seed(hvd.rank())
bench = scalecurve.attach(model)
while bench.step(samples=4):
    optimizer.zero_grad()
    model(torch.randn(4, 200, generator=generator)).square().mean().backward()
    optimizer.step()
bench.finish()
