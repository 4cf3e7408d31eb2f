"""What every program of ours that trains a model of the catalog takes alike: data, transfer and the update rule."""

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from scalecurve_api.model import Described, FilePath
from scalecurve_api.problem import Problem
from scalecurve_api.programs.data import TrainingData
from scalecurve_api.programs.model_catalog import MODELS
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.workload import Workload


class Trainable(StrEnum):
    """Which parameters of a pretrained model change."""

    all = "all"
    head = "head"
    scratch = "scratch"


class Transfer(Described):
    """Start from trained parameters, with a new head for the classes of the data."""

    checkpoint: FilePath | None = None
    """State dict of the same architecture, .pt, .pth or .safetensors, as measure.accuracy.checkpoints writes it."""
    train: Trainable = Trainable.all
    """Which parameters change; head freezes all others, and scratch ignores the checkpoint."""


class TrainingWorkload(Workload):
    """A model of the catalog in training; the framework makes no difference to what these fields mean."""

    built_in: ClassVar[bool] = True

    data: TrainingData = Field(
        default=TrainingData(), description="Where samples come from, and how images are augmented."
    )
    optimizer: Optimizer = Field(default=Optimizer(), description="The update rule.")
    transfer: Transfer = Field(default=Transfer(), description="Start from trained parameters.")

    @property
    def freezes_layers(self) -> bool:
        return self.transfer.train is Trainable.head

    @property
    def tokens_per_sample(self) -> int:
        if self.data.sequence_length is not None:
            return self.data.sequence_length
        return self.data.shape[0] if self.data.shape else MODELS.get(self.model).shape[0]

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        yield from super().problems(workers, nodes)
        for field, violation in (
            *self.data.problems(),
            *self.data.size_problems(self.model),
            *self.data.token_problems(self.model),
        ):
            yield self.problem(f"data.{field}", violation)
        for field, violation in self.optimizer.problems():
            yield self.problem(f"optimizer.{field}", violation)


def sequence_length(workload: TrainingWorkload) -> int:
    """Return the tokens of one sequence of a language model."""
    data = workload.data
    if data.sequence_length is not None:
        return data.sequence_length
    return data.shape[0] if data.shape else MODELS.get(workload.model).shape[0]
