"""What is measured at each point: timed windows, and optionally a training to accuracy."""

from typing import Annotated

from pydantic import Field, StrictBool

from scalecurve_api.model import Count, Model, Natural, Real
from scalecurve_api.programs.accuracy import Accuracy


class Measure(Model):
    """How long and how often each point is timed."""

    warmup_steps: Natural = Field(
        default=20, description="Least number of warm-up steps; warm-up then continues until the step time is stable."
    )
    max_warmup_steps: Natural = Field(
        default=500, description="Most warm-up steps; timing then starts although the step time is not stable."
    )
    windows: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=5, description="Timed windows of each trial."
    )
    steps_per_window: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        default=50, description="Steps in a timed window."
    )
    epoch_samples: Count | None = Field(
        default=None, description="Samples in an epoch: the warm-up is then one epoch, and each window another."
    )
    repetitions: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        default=3, description="Trials of each point."
    )
    seed: Natural = Field(default=0, description="Seed of the trial order, of parameters and of data.")
    exposed_communication: StrictBool = Field(
        default=True,
        description="Alternate the timed windows with windows without all-reduce, to measure exposed communication.",
    )
    accuracy: Accuracy | None = Field(default=None, description="Train to accuracy after the timed windows.")
    max_foreign_load: Real = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Share of the trial's cores that other processes may use before it is Invalid; 1 turns this off.",
    )
