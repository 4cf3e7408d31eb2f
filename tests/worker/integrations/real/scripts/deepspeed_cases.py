"""A loop of one's own with a DeepSpeed engine; CASE says what is measured."""

import json
import os

import deepspeed
import torch
from torch.utils.data import TensorDataset

from scalecurve_worker.integrations.deepspeed import measure
from scalecurve_worker.process.failure import WorkloadError

CASE = os.environ["CASE"]
deepspeed.ops.__compatible_ops__.clear()  # or it compiles an all-reduce for CPUs, which training does not use
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
if CASE == "mistakes":
    try:
        measure(model, [])
    except WorkloadError as error:
        print(error)
    raise SystemExit
engine, _, loader, _ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.AdamW(model.parameters()),
    training_data=TensorDataset(torch.randn(14, 8), torch.arange(14) % 2),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 3,
        "zero_optimization": {"stage": int(os.environ.get("STAGE", "2"))},
    },
)
loader = measure(engine, loader, then="stop")
epochs = []
for _ in range(3):
    batches = 0
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(engine(inputs), labels)
        engine.backward(loss)
        engine.step()
        loader.loss(loss)
        batches += 1
    epochs.append(batches)
print(json.dumps({"epochs": epochs, "updates": engine.global_steps}))
