"""Lightning: ``Trainer(..., callbacks=[ScaleCurveCallback()])``, of ``lightning`` or ``pytorch_lightning``."""

import sys
from typing import Any

from scalecurve_worker.integrations.libraries import library
from scalecurve_worker.integrations.measurement import Measurement, Then
from scalecurve_worker.sdk.counts import Unit

_OLD_NAME = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
_MODULE, _DISTRIBUTION = ("pytorch_lightning", "pytorch-lightning") if _OLD_NAME else ("lightning.pytorch", "lightning")
lightning = library(_MODULE, _DISTRIBUTION, "2.0")
_Callback: Any = lightning.Callback

# What ends, evaluates or saves a training. Timer and EarlyStopping would end the measurement, too.
_WAITING = ("Checkpoint", "EarlyStopping", "Timer")
_ADVICE = "use a loader that has batches in every epoch"


class ScaleCurveCallback(_Callback):  # type: ignore[misc]
    """Measures the optimizer updates of ``Trainer.fit``, beyond ``max_epochs`` and ``max_steps`` if need be.

    Validation, checkpoints, early stopping and timers wait until all is measured. Args as in ``Measurement``.
    """

    def __init__(self, unit: Unit = "samples", then: Then | None = None) -> None:
        super().__init__()
        self._measurement = Measurement(unit, then)
        self._postponed: list[tuple[Any, str, Any]] = []
        self._updates = -1

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Disable validation and the callbacks that save or end training: nothing but training is measured."""
        if stage == "fit" and not self._measurement.over:
            waiting = tuple(getattr(lightning.callbacks, name) for name in _WAITING)
            self._set(trainer, "callbacks", [each for each in trainer.callbacks if not isinstance(each, waiting)])
            self._set(trainer, "limit_val_batches", 0)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self._measurement.over:
            return
        self._set(trainer.fit_loop, "max_epochs", -1)
        self._set(trainer.fit_loop.epoch_loop, "max_steps", -1)
        for config in trainer.lr_scheduler_configs:
            self._set(config, "strict", False)  # what it monitors may come from validation

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Begin a step with the first batch after an optimizer update."""
        measurement = self._measurement
        if not measurement.joined:
            measurement.join(trainer.model)
        if trainer.global_step != self._updates:
            self._updates = trainer.global_step
            if not measurement.next_step():
                self._end(trainer)
        if measurement.running:
            measurement.batch(batch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._measurement.running:
            loss: Any = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self._measurement.loss(loss.detach() if hasattr(loss, "detach") else None)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._restore()
        self._measurement.training_ended(_ADVICE)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._postponed.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _end(self, trainer: Any) -> None:
        """After the last window the training stops, still without validation, or becomes what it was."""
        if not self._measurement.stops:
            self._restore()
            return
        self._set(trainer.fit_loop, "min_epochs", 0)
        self._set(trainer.fit_loop.epoch_loop, "min_steps", None)
        trainer.should_stop = True

    def _restore(self) -> None:
        while self._postponed:
            setattr(*self._postponed.pop())
