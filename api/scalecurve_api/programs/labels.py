"""Changes to the labels and classes of training images: noise, imbalance, resampling, and a teacher's labels."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool

from scalecurve_api.model import Count, Described, FilePath, Real, Whole
from scalecurve_api.problem import Violation, only_with


class Resampling(StrEnum):
    """How often items of a class come: as stored, by the square root of its size, or as often as those of any other."""

    natural = "natural"
    square_root = "square-root"
    uniform = "uniform"


class PseudoLabels(Described):
    """Labels that a trained teacher gives to the images without one: Yalniz et al., arXiv:1905.00546."""

    teacher: FilePath
    """Trained parameters of workload.model, as measure.accuracy.checkpoints writes them."""
    per_class: Count = 100
    """Images of the highest score that each class takes (K)."""
    classes_per_image: Whole = Field(default=1, ge=1, le=1000)
    """Most probable classes of an image that it is ranked in (P); with several it can train as more than one class."""
    only: StrictBool = False
    """Train on pseudo-labeled images alone, for a student that transfer.checkpoint fine-tunes on the labeled ones."""


class TrainingLabels(Described):
    """How labels and class sizes of the training images differ from those stored; drawn once, by splitSeed.

    In the order of the fields; validation and test images stay as they are.
    """

    imbalance: Real = Field(default=1.0, ge=1, le=1_000_000)
    """Largest class over smallest: classes are cut to a long tail in their order (Cui et al., arXiv:1901.05555)."""
    labeled: Real = Field(default=1.0, gt=0, le=1)
    """Share of each class that keeps its labels; without pseudoLabels the other images are left out."""
    noise: Real = Field(default=0.0, ge=0, lt=1)
    """Share of labels that are replaced by another class, each other class being equally likely."""
    pseudo_labels: PseudoLabels | None = None
    """Train on the images without a label, too, as a teacher labels them."""
    resampling: Resampling = Field(default=Resampling.natural)
    """Drop or repeat items by class, for a set of the same size (Mahajan et al., arXiv:1805.00932)."""

    def problems(self) -> Iterator[tuple[str, Violation]]:
        if self.pseudo_labels is not None and self.labeled == 1:
            yield "labels.pseudoLabels", only_with("labels.labeled below 1, where images have no label,")


class Pictures(Described):
    """Training images that the report shows."""

    classes: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(default=[], max_length=8)
    """Names of the classes to show; the first eight by default."""
    per_class: Whole = Field(default=1, ge=0, le=8)
    """Images of each class to show; with 0 the records keep no image."""
