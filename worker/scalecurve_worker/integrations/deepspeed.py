"""DeepSpeed: ``loader = measure(engine, loader)`` after ``deepspeed.initialize``, and the loop stays as it is."""

from collections.abc import Iterable
from typing import Any

from scalecurve_worker.integrations.libraries import library
from scalecurve_worker.integrations.loaders import MeasuredLoader
from scalecurve_worker.integrations.measurement import Measurement, Then
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.sdk.counts import Unit

deepspeed = library("deepspeed", "deepspeed", "0.14")


def measure(engine: Any, loader: Iterable[Any], *, unit: Unit = "samples", then: Then | None = None) -> MeasuredLoader:
    """Repeat the ``loader`` until all is measured; a step has as many batches as the engine accumulates.

    ``unit`` and ``then`` are those of ``Measurement``.

    Raises:
        WorkloadError: ``engine`` is none, or has its own loop, as a pipeline's.
    """
    if not isinstance(engine, deepspeed.DeepSpeedEngine) or isinstance(engine, deepspeed.PipelineEngine):
        raise WorkloadError(
            f"measure: expected the DeepSpeedEngine of deepspeed.initialize, got {type(engine).__name__} "
            "(a pipeline runs its own loop: use scalecurve_worker.attach and bench.step around train_batch)"
        )
    updates = engine.global_steps

    def updated() -> bool:
        nonlocal updates
        before, updates = updates, engine.global_steps
        return bool(updates != before)

    return MeasuredLoader(loader, Measurement(unit, then), lambda: engine, updated)
