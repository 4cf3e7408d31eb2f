"""Accelerate: ``loader = measure(accelerator, loader)`` after ``accelerator.prepare``, and the loop stays as it is."""

from collections.abc import Iterable
from typing import Any

from scalecurve_worker.integrations.libraries import library
from scalecurve_worker.integrations.loaders import MeasuredLoader
from scalecurve_worker.integrations.measurement import Measurement, Then
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.sdk.counts import Unit

accelerate = library("accelerate", "accelerate", "1.0")


def measure(
    accelerator: Any, loader: Iterable[Any], model: Any = None, *, unit: Unit = "samples", then: Then | None = None
) -> MeasuredLoader:
    """Repeat the prepared ``loader`` until all is measured; a step has all batches of one ``accumulate``.

    ``model`` is the one that ``prepare`` returned; by default the only one that was prepared. ``unit`` and ``then`` are
    those of ``Measurement``.

    Raises:
        WorkloadError: ``accelerator`` is none, or it is not clear which model is trained.
    """
    if not isinstance(accelerator, accelerate.Accelerator):
        raise WorkloadError(f"measure: expected an accelerate.Accelerator, got {type(accelerator).__name__}")
    if model is None:
        prepared = accelerator._models
        if len(prepared) != 1:
            raise WorkloadError(
                f"measure: {len(prepared)} models are prepared; call it after accelerator.prepare(), "
                "or measure(accelerator, loader, model)"
            )
        (model,) = prepared
    return MeasuredLoader(loader, Measurement(unit, then), lambda: model, lambda: bool(accelerator.sync_gradients))
