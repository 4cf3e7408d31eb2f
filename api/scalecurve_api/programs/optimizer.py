"""The update rule of a training, and how its learning rate changes."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from scalecurve_api.model import Model, Real


class Decay(StrEnum):
    """How the learning rate falls over the epochs of a training to accuracy."""

    constant = "constant"
    multi_step = "multi-step"
    cosine = "cosine"


class Optimizer(Model):
    """The update rule."""

    name: Literal["sgd", "adamw", "adagrad", "lars", "lamb"] = Field(
        default="sgd", description="The update rule; lars and lamb scale each layer's rate for large batches."
    )
    learning_rate: Real = Field(default=0.05, gt=0, le=1000, description="Learning rate at one worker.")
    momentum: Real = Field(default=0.9, ge=0, lt=1, description="Momentum of sgd and lars.")
    weight_decay: Real = Field(default=0.0, ge=0, le=10, description="Weight decay.")
    trust: Real = Field(default=0.001, gt=0, le=1, description="Trust coefficient of lars.")
    scale_with_workers: StrictBool = Field(
        default=False, description="Linear scaling: multiply learningRate by the worker count."
    )
    warmup_epochs: Real = Field(
        default=0.0,
        ge=0,
        le=10_000,
        description="In a training to accuracy: epochs over which the rate rises from learningRate to the scaled one.",
    )
    decay: Decay = Field(default=Decay.constant, description="In a training to accuracy: how the rate falls.")
    milestones: list[Annotated[int, Field(ge=1, le=100_000, strict=True)]] = Field(
        default=[], max_length=20, description="Epochs after which multi-step multiplies the rate by decayFactor."
    )
    decay_factor: Real = Field(default=0.1, gt=0, le=1, description="Factor of the rate at each milestone.")

    def wrong_milestones(self) -> Iterator[str]:
        """What is allowed instead of these milestones."""
        if self.milestones and self.decay is not Decay.multi_step:
            yield "none: milestones go with decay multi-step only"
        if self.decay is Decay.multi_step and not self.milestones:
            yield "the epochs after which the rate falls, such as [30, 60, 80]"


class TorchOptimizer(Optimizer):
    """The update rule, with PyTorch's parameter groups."""

    decay_norm: StrictBool = Field(
        default=True, description="Apply weight decay to biases and to the parameters of norms too."
    )
