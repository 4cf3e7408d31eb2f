"""The update rule of a workload, and how its learning rate moves."""

from __future__ import annotations

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

    name: Literal["sgd", "adamw", "adagrad", "lars", "lamb"] = "sgd"
    learning_rate: Real = Field(default=0.05, gt=0, le=1000)
    momentum: Real = Field(default=0.9, ge=0, lt=1, description="of sgd and lars")
    weight_decay: Real = Field(default=0.0, ge=0, le=10)
    decay_norm: StrictBool = Field(default=True, description="weight decay also on biases and on norms' parameters")
    trust: Real = Field(default=0.001, gt=0, le=1, description="LARS's trust coefficient")
    scale_with_workers: StrictBool = Field(
        default=False, description="linear scaling: learningRate times the worker count"
    )
    warmup_epochs: Real = Field(
        default=0.0, ge=0, le=10_000, description="training to accuracy: rise from learningRate to the scaled one"
    )
    decay: Decay = Field(default=Decay.constant, description="training to accuracy: how the rate falls")
    milestones: list[Annotated[int, Field(ge=1, le=100_000, strict=True)]] = Field(
        default=[], max_length=20, description="epochs after which multi-step multiplies the rate by decayFactor"
    )
    decay_factor: Real = Field(default=0.1, gt=0, le=1)
