"""The update rule of a training, and how its learning rate changes."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from scalecurve_api.model import Described, Real
from scalecurve_api.problem import Violation, expected, one_of, only_with, unsupported

RHO = 0.9
FUSED = ("sgd", "adam", "adamw", "adagrad")  # rules that torch has a fused kernel of


class Decay(StrEnum):
    """How the learning rate falls over the epochs of a training to accuracy."""

    constant = "constant"
    multi_step = "multi-step"
    cosine = "cosine"


class Optimizer(Described):
    """The update rule."""

    name: Literal["sgd", "adam", "adamw", "adadelta", "adagrad", "rmsprop", "lars", "lamb"] = "sgd"
    """The update rule; lars and lamb scale each layer's rate for large batches."""
    learning_rate: Real = Field(default=0.05, gt=0, le=1000, description="Learning rate at one worker.")
    momentum: Real = Field(default=0.9, ge=0, lt=1, description="Momentum of sgd and lars.")
    nesterov: StrictBool = Field(default=False, description="Use Nesterov's momentum with sgd.")
    rho: Real = Field(default=RHO, ge=0, lt=1)
    """Decay of the running mean of squared gradients of rmsprop and adadelta."""
    weight_decay: Real = Field(default=0.0, ge=0, le=10)
    """Weight decay; adamw takes it off the parameters, sgd, adam, adadelta, adagrad and rmsprop add it to gradients."""
    decay_norm: StrictBool = Field(default=True)
    """Apply weight decay to biases and to the parameters of norms too."""
    trust: Real = Field(default=0.001, gt=0, le=1, description="Trust coefficient of lars.")
    scale_with_workers: StrictBool = False
    """Linear scaling: multiply learningRate by the worker count."""
    warmup_epochs: Real = Field(default=0.0, ge=0, le=10_000)
    """In a training to accuracy: epochs over which the rate rises from learningRate to the scaled one."""
    decay: Decay = Field(default=Decay.constant, description="In a training to accuracy: how the rate falls.")
    milestones: list[Annotated[int, Field(ge=1, le=100_000, strict=True)]] = Field(default=[], max_length=20)
    """Epochs after which multi-step multiplies the rate by decayFactor."""
    decay_factor: Real = Field(default=0.1, gt=0, le=1, description="Factor of the rate at each milestone.")
    fused: StrictBool | None = None
    """Program torch, horovod: torch's fused kernel; by default for adam and adamw on GPUs, as torchtitan has it."""

    def problems(self) -> Iterator[tuple[str, Violation]]:
        """Name the fields that do not fit the others, and why."""
        if self.milestones and self.decay is not Decay.multi_step:
            yield "milestones", only_with("decay multi-step")
        if self.decay is Decay.multi_step and not self.milestones:
            yield "milestones", expected("the epochs after which the rate falls, such as [30, 60, 80]")
        if self.nesterov and (self.name != "sgd" or not self.momentum):
            yield "nesterov", only_with("sgd with a momentum above 0")
        if self.rho != RHO and self.name not in ("rmsprop", "adadelta"):
            yield "rho", only_with("rmsprop and adadelta")
        if self.fused and self.name not in FUSED:
            yield "fused", unsupported(f"with {self.name}", f"false, or {one_of(FUSED)}")
