"""What is measured of each point: timed windows, and a training to accuracy if it is asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from scalecurve_api.model import Count, Model, Natural, Real
from scalecurve_api.programs.accuracy import Accuracy


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
