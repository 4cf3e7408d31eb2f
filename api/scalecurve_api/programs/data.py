"""What a workload's step consumes: where samples come from and what they go through."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from scalecurve_api.model import Count, FilePath, Model, Natural, Real


class DataSource(StrEnum):
    """Where samples come from."""

    synthetic = "synthetic"
    digits = "digits"
    fashion_mnist = "fashion-mnist"
    cifar10 = "cifar10"
    image_folder = "image-folder"


class Augmentation(StrEnum):
    """What training images go through; ``auto`` is standard where a mirrored image means the same, else none."""

    auto = "auto"
    none = "none"
    standard = "standard"


class Data(Model):
    """What a step consumes."""

    source: DataSource = DataSource.synthetic
    path: FilePath | None = Field(default=None, description="folder of a data set on disk")
    shape: list[Count] | None = Field(
        default=None, min_length=1, max_length=4, description="shape of one sample, as [3, 224, 224]"
    )
    classes: Annotated[int, Field(ge=2, le=1_000_000, strict=True)] | None = None
    augmentation: Augmentation = Field(
        default=Augmentation.auto, description="standard: crop at random and mirror training images"
    )
    cutout: Natural = Field(default=0, description="side in pixels of a square blotted out of each training image")
    instances: Annotated[int, Field(ge=1, le=1024, strict=True)] = Field(
        default=1, description="differently augmented copies of each sample in one batch, which grows so many times"
    )
    validation: Real | None = Field(
        default=None, gt=0, lt=1, description="image-folder without train and val: share of each class held out"
    )
    split_seed: Natural = Field(default=0, description="which images are held out")
