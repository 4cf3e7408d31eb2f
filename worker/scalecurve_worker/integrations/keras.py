"""Keras 3: ``model.fit(..., callbacks=[ScaleCurveCallback()])``, on its torch or TensorFlow backend."""

import math
from collections.abc import Callable
from typing import Any

from scalecurve_api.registry import load
from scalecurve_worker.integrations.libraries import library
from scalecurve_worker.integrations.measurement import Measurement, Then, local_of_caller
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.sdk.counts import Unit

keras = library("keras", "keras", "3.0")
_Callback: Any = keras.callbacks.Callback

_ADVICE = "use more epochs, or steps_per_epoch with a repeated dataset, and no EarlyStopping"


class ScaleCurveCallback(_Callback):  # type: ignore[misc]
    """Measures the optimizer updates of ``Model.fit``.

    Validation and saving wait until all is measured. Only the beginning of batches is watched: with the end of each,
    Keras would wait for the device. Args as in ``Measurement``.
    """

    def __init__(self, unit: Unit = "samples", then: Then | None = None) -> None:
        super().__init__()
        backend = keras.config.backend()
        if backend not in ("torch", "tensorflow"):
            raise WorkloadError(f"ScaleCurveCallback: KERAS_BACKEND={backend!r}; expected 'torch', 'tensorflow'")
        if unit == "tokens" and backend == "tensorflow":
            raise WorkloadError("ScaleCurveCallback: unit='tokens' needs the torch backend; expected 'samples'")
        self._on_torch = backend == "torch"
        self._measurement = Measurement(unit, then)
        self._shadowed: list[tuple[str, bool, Any]] = []
        self._batches = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Disable evaluation and saving, so that only training happens while it is measured."""
        if self._measurement.over:
            return
        model = self.model
        if model.steps_per_execution != 1:
            raise WorkloadError(f"ScaleCurveCallback: steps_per_execution={model.steps_per_execution}; expected 1")
        self._shadow("_should_eval", lambda *_: False)
        for name in ("save", "save_weights"):
            self._shadow(name, lambda *_, **__: None)
        if self._on_torch:
            self._shadow("train_function", self._counting(model.train_function))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin a step with the first batch after an optimizer update."""
        measurement = self._measurement
        if not measurement.joined:
            self._join()
        if not measurement.over and self._batches % (self.model.optimizer.gradient_accumulation_steps or 1) == 0:
            measurement.next_step()
        self._batches += 1
        if measurement.over:
            self.model.stop_training |= measurement.stops
            if not measurement.stops:
                self._release()
        elif not self._on_torch:
            measurement.samples(self._size_of(batch))

    def on_test_begin(self, logs: Any = None) -> None:
        if self._measurement.running:
            raise WorkloadError("ScaleCurveCallback: this Keras validates while steps are timed; drop validation_data")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Record the mean loss of the epoch: Keras gives no loss of a single step without waiting for the device."""
        if self._measurement.running:
            self._note_loss(logs or {})

    def on_train_end(self, logs: Any = None) -> None:
        self._release()
        self._measurement.training_ended(_ADVICE)

    def _join(self) -> None:
        epochs, steps = self.params.get("epochs"), self.params.get("steps")
        updates = (
            epochs * steps // (self.model.optimizer.gradient_accumulation_steps or 1) if epochs and steps else None
        )
        bench = None
        if not self._on_torch:
            bench = load("scalecurve_worker.features.tensorflow.keras_bench:tensorflow_bench")(self.model)
        self._measurement.join(self.model, updates, _ADVICE, bench, self._close)

    def _close(self) -> str | None:
        """What is left to note after the last window; the digest of the parameters where they are not torch's."""
        self._note_loss(self.model.get_metrics_result())
        if self._on_torch:
            return None
        digest: str = load("scalecurve_worker.features.tensorflow.keras_bench:weights_digest")(self.model)
        return digest

    def _note_loss(self, logs: Any) -> None:
        loss = logs.get("loss")
        if loss is None:
            return
        self._measurement.bench.loss(float(loss))
        if not math.isfinite(float(loss)):
            self._measurement.bench.not_finite()

    def _size_of(self, batch: int) -> int:
        """Samples of a batch that Keras does not hand out, by the adapter of the data that ``fit`` was passed."""
        iterator = local_of_caller("epoch_iterator")
        adapter = getattr(iterator, "data_adapter", None)
        size = getattr(adapter, "batch_size", None) or self._measurement.bench.samples_per_step
        if size is None:
            raise WorkloadError("ScaleCurveCallback: the batch size is not known; pass arrays or a batched dataset")
        last = self.params.get("steps") == batch + 1
        return int((last and getattr(adapter, "partial_batch_size", None)) or size)

    def _counting(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The backend's function for one batch, which counts it."""

        def counted(data: Any) -> Any:
            if self._measurement.running:
                self._measurement.batch(data[0])
            return function(data)

        return counted

    def _shadow(self, name: str, value: Any) -> None:
        """Hide an attribute of the model behind one of this instance, which Keras need not track."""
        mine = self.model.__dict__
        self._shadowed.append((name, name in mine, mine.get(name)))
        mine[name] = value

    def _release(self) -> None:
        while self._shadowed:
            name, had_one, value = self._shadowed.pop()
            if had_one:
                self.model.__dict__[name] = value
            else:
                del self.model.__dict__[name]
