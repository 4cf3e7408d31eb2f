"""What a trial asks of this program: model, shapes and batch, settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalebench_api.experiment import DataSource
from scalebench_api.trial import TrialSpec
from scalebench_worker.failure import WorkloadError
from scalebench_worker.tensorflow import models


@dataclass(frozen=True)
class Asked:
    """``shape`` is (channels, height, width), ``batch`` that of one worker."""

    model: str
    shape: tuple[int, ...]
    classes: int
    batch: int

    @classmethod
    def of(cls, trial: TrialSpec) -> Asked:
        """Read a trial; what it leaves open is the model's own.

        Raises:
            WorkloadError: no batch, or a data source that this program does not have.
            ModelError: a model that it does not have.
        """
        data, batch = trial.workload.data, trial.point.batch_per_worker
        spec = models.spec(trial.workload.model)
        if batch is None:
            raise WorkloadError("scaling.batch: program tensorflow needs global (strong) or perWorker (weak)")
        if data.source is not DataSource.synthetic:
            raise WorkloadError(f"workload.data.source: {data.source.value} is not in program tensorflow yet")
        return cls(spec.name, tuple(data.shape or spec.shape), data.classes or spec.classes, batch)

    def build(self) -> Any:
        """The model, with parameters drawn from Keras's global seed."""
        return models.build(self.model, classes=self.classes, input_shape=self.shape)
