"""Steps that take turns with training: the same without the all-reduce."""

from __future__ import annotations

from typing import Any

from scalecurve_api.record.rank import WindowKind
from scalecurve_worker.tensorflow.framework import tf
from scalecurve_worker.tensorflow.training import ReplicaTrainer


class NoAllReduce:
    """Each replica goes by its own gradient; afterwards every variable is put back."""

    kind = WindowKind.no_communication
    method: str | None = "no-all-reduce"

    def __init__(self, trainer: ReplicaTrainer) -> None:
        self._trainer = trainer
        self._kept: list[Any] = []

    def enter(self) -> None:
        self._kept = [tf.identity(variable) for variable in self._trainer.state()]

    def leave(self) -> None:
        for variable, value in zip(self._trainer.state(), self._kept, strict=True):
            variable.assign(value)
        self._kept = []
