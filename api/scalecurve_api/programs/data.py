"""What a training step consumes: where samples come from and how they are transformed."""

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

    @property
    def on_disk(self) -> bool:
        """Whether it is read from a folder that the experiment names."""
        return self in (DataSource.fashion_mnist, DataSource.cifar10, DataSource.image_folder)


class Augmentation(StrEnum):
    """Random changes to training images; ``auto`` is standard where a mirrored image means the same, else none."""

    auto = "auto"
    none = "none"
    standard = "standard"


class Data(Model):
    """Where samples come from, and their shape."""

    source: DataSource = Field(
        default=DataSource.synthetic, description="Where samples come from; synthetic ones cost no input time."
    )
    path: FilePath | None = Field(default=None, description="Folder of a data set on disk.")
    shape: list[Count] | None = Field(
        default=None,
        min_length=1,
        max_length=4,
        description="Shape of one sample, such as [3, 224, 224]; the model's own by default.",
    )
    classes: Annotated[int, Field(ge=2, le=1_000_000, strict=True)] | None = Field(
        default=None,
        description="Number of classes, or size of the vocabulary; the model's own by default.",
    )


class TorchData(Data):
    """Where samples come from, their shape, and how training images are augmented."""

    augmentation: Augmentation = Field(
        default=Augmentation.auto,
        description="Random crops and mirroring of training images; auto leaves out what changes their meaning.",
    )
    cutout: Natural = Field(default=0, description="Side, in pixels, of a square blotted out of each training image.")
    instances: Annotated[int, Field(ge=1, le=1024, strict=True)] = Field(
        default=1,
        description="Differently augmented copies of each sample in one batch, which grows by the same factor.",
    )
    validation: Real | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="For an image-folder without train and val: share of each class held out for validation.",
    )
    split_seed: Natural = Field(default=0, description="Seed that selects the images held out for validation.")
