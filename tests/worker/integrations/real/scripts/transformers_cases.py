"""A Trainer that evaluates and saves after every step; CASE says what its callback is to do."""

import json
import os
import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from scalecurve_worker.integrations.transformers import ScaleCurveCallback

CASE = os.environ["CASE"]
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=32, n_positions=8))
data = [{"input_ids": row, "labels": row} for row in torch.randint(32, (26, 8))]
seen = {"evaluations": 0, "first": None}


class Counting(TrainerCallback):
    def on_evaluate(self, args, state, control, **_):
        seen["evaluations"] += 1
        seen["first"] = seen["first"] or state.global_step


arguments = TrainingArguments(
    sys.argv[1],
    per_device_train_batch_size=2,
    gradient_accumulation_steps=3,
    max_steps={"few": 5, "continues": 60}.get(CASE, 1000),
    eval_strategy="steps",
    eval_steps=5,
    eval_on_start=CASE == "stop",
    save_strategy="steps",
    save_steps=5,
    load_best_model_at_end=True,
    save_total_limit=1,
    disable_tqdm=True,
    report_to="none",
)
trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:2], callbacks=[Counting()])
trainer.add_callback(ScaleCurveCallback(unit="tokens", then={"stop": "stop", "continues": "continue"}.get(CASE)))
trainer.train()
saved = len(list(Path(sys.argv[1]).glob("checkpoint-*")))
print(
    json.dumps(
        {**seen, "steps": trainer.state.global_step, "saved": saved, "wrapped": "training_step" in vars(trainer)}
    )
)
