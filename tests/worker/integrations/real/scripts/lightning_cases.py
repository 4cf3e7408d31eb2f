"""A LightningModule that validates, saves and stops early; CASE says what its callback is to do."""

import json
import os
import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from scalecurve_worker.integrations.lightning import ScaleCurveCallback

CASE = os.environ["CASE"]
seen = {"validations": 0, "first": None}


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, _):
        if not self.trainer.sanity_checking:
            seen["validations"] += 1
            seen["first"] = seen["first"] or self.trainer.global_step
        self.log("val_loss", 1.0)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"}}


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(14, 8), torch.arange(14) % 2), batch_size=2)
folder = Path(sys.argv[1])
callbacks = [
    ScaleCurveCallback(then={"stop": "stop", "continues": "continue"}.get(CASE)),
    EarlyStopping("val_loss", patience=100),
    ModelCheckpoint(folder, "kept", save_top_k=1, every_n_train_steps=1),
]
if CASE == "twice":
    callbacks.append(ScaleCurveCallback())
trainer = lightning.Trainer(
    max_epochs=1 if CASE == "stop" else 200,
    min_epochs=1,
    max_steps=60,
    accumulate_grad_batches=3,
    accelerator="cpu",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=callbacks,
)
trainer.fit(Model(), loader, DataLoader(loader.dataset, batch_size=7))
saved = len(list(folder.glob("*.ckpt")))
kinds = [type(callback).__name__ for callback in trainer.callbacks]
limits = [trainer.limit_val_batches, trainer.max_epochs, trainer.max_steps]
print(json.dumps({**seen, "steps": trainer.global_step, "saved": saved, "callbacks": kinds, "limits": limits}))
