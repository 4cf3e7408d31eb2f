"""What is measured of each point: timed windows, and a training to accuracy if it is asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from scalecurve_api.model import Count, FilePath, Model, Natural, Real


class Quantization(Model):
    """After training: the model in integers of fewer and fewer bits, judged on the validation set."""

    bits: list[Annotated[int, Field(ge=2, le=16, strict=True)]] = Field(
        default=[8, 7, 6, 5, 4, 3, 2], min_length=1, max_length=15
    )
    calibration_batches: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=8, description="training batches that the ranges of activations are taken from"
    )


class Accuracy(Model):
    """Train to accuracy after timing: fresh parameters, an evaluation after every epoch."""

    epochs: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 10
    target: Real | None = Field(default=None, gt=0, le=1, description="stop and report the time to this")
    checkpoints: FilePath | None = Field(default=None, description="folder for the trained parameters of each trial")
    quantization: Quantization | None = None
    noise_scale: StrictBool = Field(default=False, description="measure the gradient noise scale while training")


class Measure(Model):
    """How long and how often each point is timed."""

    warmup_steps: Natural = Field(default=20, description="at least so many; then until step time is stable")
    max_warmup_steps: Natural = Field(default=500, description="give up waiting for a stable step time here")
    windows: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 5
    steps_per_window: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = 50
    epoch_samples: Count | None = Field(
        default=None,
        description="samples of an epoch: the warm-up is then one epoch, and each window another",
    )
    repetitions: Annotated[int, Field(ge=1, le=1000, strict=True)] = 3
    seed: Natural = 0
    exposed_communication: StrictBool = True
    accuracy: Accuracy | None = None
    max_foreign_load: Real = Field(
        default=0.25,
        ge=0,
        le=1,
        description="share of this trial's cores that others or the hypervisor may take before it is Invalid; 1 is off",
    )
