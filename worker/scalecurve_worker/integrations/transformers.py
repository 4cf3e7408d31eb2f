"""Hugging Face Transformers: ``Trainer(..., callbacks=[ScaleCurveCallback()])``."""

from typing import Any

from scalecurve_worker.integrations.libraries import library
from scalecurve_worker.integrations.measurement import Measurement, Then, caller
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.sdk.counts import Unit

transformers = library("transformers", "transformers[torch]", "4.46")
_Callback: Any = transformers.TrainerCallback

_ADVICE = "use a larger max_steps, or num_train_epochs, of TrainingArguments"


class ScaleCurveCallback(_Callback):  # type: ignore[misc]
    """Measures the optimizer updates of ``Trainer.train``; a step has all parts of an accumulated gradient.

    Evaluation and checkpoints wait until all is measured. Args as in ``Measurement``.
    """

    def __init__(self, unit: Unit = "samples", then: Then | None = None) -> None:
        self._measurement = Measurement(unit, then)
        self._trainer: Any = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End a step and begin the next: the first call joins, and the one after the last window finishes."""
        measurement = self._measurement
        if not measurement.joined:
            trainer = caller(transformers.Trainer)
            if trainer is None:
                raise WorkloadError("ScaleCurveCallback measures a transformers.Trainer, and none called it")
            measurement.join(trainer.model_wrapped, state.max_steps - state.global_step, _ADVICE)
            if measurement.running:
                self._count_batches(trainer)
        if not measurement.next_step():
            self._release()
            control.should_training_stop |= measurement.stops

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Prevent evaluation and saving inside a window."""
        if self._measurement.running or self._measurement.stops:
            control.should_evaluate = control.should_save = False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.on_step_end(args, state, control, **more)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._release()
        self._measurement.training_ended(_ADVICE)

    def _count_batches(self, trainer: Any) -> None:
        """Let every part of a step pass by here: ``training_step`` is the Trainer's own place for that."""
        self._trainer, original, measurement = trainer, trainer.training_step, self._measurement

        def counted(model: Any, inputs: Any, *arguments: Any, **keywords: Any) -> Any:
            if measurement.running:
                measurement.batch(inputs)
            loss = original(model, inputs, *arguments, **keywords)
            if measurement.running:
                measurement.loss(loss)
            return loss

        trainer.training_step = counted

    def _release(self) -> None:
        if self._trainer is not None:
            del self._trainer.training_step
            self._trainer = None
