"""A loop of one's own with Accelerate; CASE says what is measured."""

import json
import os

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from scalecurve_worker.integrations.accelerate import measure
from scalecurve_worker.process.failure import WorkloadError

CASE = os.environ["CASE"]
accelerator = Accelerator(gradient_accumulation_steps=3, cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(14, 8), torch.arange(14) % 2), batch_size=2)
if CASE == "mistakes":
    for first in (accelerator, model):
        try:
            measure(first, loader)
        except WorkloadError as error:
            print(error)
    raise SystemExit
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
loader = measure(accelerator, loader, then="stop")
epochs = []
for _ in range(3):
    batches = 0
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        loader.loss(loss)
        batches += 1
    epochs.append(batches)
print(json.dumps({"epochs": epochs, "length": len(loader)}))
