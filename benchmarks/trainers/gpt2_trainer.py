"""GPT-2 under Transformers' ``Trainer`` on random tokens, as its users write it; nothing in here measures.

    python gpt2_trainer.py --batch 16 [--layers 12 --width 768 --length 1024] [--callback]

``--callback`` adds the one line of the integration.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class RandomTokens(Dataset[dict[str, torch.Tensor]]):
    """Sequences of random tokens, each with its index as the seed."""

    def __init__(self, vocabulary: int, length: int) -> None:
        self._vocabulary, self._length = vocabulary, length

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = torch.randint(self._vocabulary, (self._length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": row, "labels": row}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch", type=int, required=True)
    arguments.add_argument("--layers", type=int, default=12)
    arguments.add_argument("--width", type=int, default=768)
    arguments.add_argument("--length", type=int, default=1024)
    arguments.add_argument("--vocabulary", type=int, default=50_304)
    arguments.add_argument("--callback", action="store_true")
    chosen = arguments.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=chosen.layers,
        n_embd=chosen.width,
        n_head=max(1, chosen.width // 64),
        n_positions=chosen.length,
        vocab_size=chosen.vocabulary,
    )
    on_gpu = torch.cuda.is_available()
    settings = TrainingArguments(
        tempfile.mkdtemp(),
        per_device_train_batch_size=chosen.batch,
        max_steps=100_000,
        bf16=on_gpu,
        use_cpu=not on_gpu,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_num_workers=4 if on_gpu else 0,
    )
    callbacks: list[TrainerCallback] = []
    if chosen.callback:
        from scalecurve_worker.integrations.transformers import ScaleCurveCallback

        callbacks = [ScaleCurveCallback(unit="tokens")]
    Trainer(
        GPT2LMHeadModel(config),
        settings,
        train_dataset=RandomTokens(chosen.vocabulary, chosen.length),
        callbacks=callbacks,
    ).train()


if __name__ == "__main__":
    main()
