"""What the record shows of a data set: counts by class, and some images before and after augmentation."""

from base64 import b64encode

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from scalecurve_api.programs.labels import Pictures
from scalecurve_api.record.facts.dataset import DatasetFacts, Picture
from scalecurve_worker.torch.data.loader import Loader
from scalecurve_worker.training.data.images import DataError

PICTURES = 8
LARGEST = 32  # pixels of a side, so that all of them stay small beside the rest of a record


def dataset_facts(training: Loader, validation: Loader, shown: Pictures | None = None) -> DatasetFacts:
    """Count both splits and take the first training images of the classes to show, by default of the first eight."""
    facts = DatasetFacts(train=training.spec.items, val=validation.spec.items, labels=training.label_facts)
    labels = training.labels_of_all
    if labels is None:
        return facts
    counts = np.bincount(labels, minlength=len(training.class_names))
    names = list(training.class_names)
    facts = facts.model_copy(update={"class_counts": counts.tolist(), "class_names": names})
    shown = shown or Pictures()
    numbers = _numbers(names, shown.classes) if shown.classes else np.unique(labels)[:PICTURES].tolist()
    items = [int(item) for number in numbers for item in np.flatnonzero(labels == number)[: shown.per_class]]
    if not items:
        return facts
    pictures = [
        Picture(label=int(labels[item]), shape=list(trained.shape), original=_bytes(original), trained=_bytes(trained))
        for item, original, trained in zip(items, *_small(*training.examples(items)), strict=True)
    ]
    return facts.model_copy(update={"pictures": pictures})


def _numbers(names: list[str], shown: list[str]) -> list[int]:
    absent = [name for name in shown if name not in names]
    if absent:
        known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise DataError(f"data.pictures.classes: {absent[0]!r} is no class of the training set ({known})")
    return [names.index(name) for name in shown]


def _small(original: Tensor, trained: Tensor) -> list[Tensor]:
    """Both in the size of the trained images, or as much smaller as the largest side wants."""
    *_, height, width = trained.shape
    by = min(1.0, LARGEST / max(height, width))
    size = (max(1, round(height * by)), max(1, round(width * by)))
    return [_resize_images(images, size).expand(-1, trained.shape[1], -1, -1) for images in (original, trained)]


def _resize_images(images: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(images.shape[2:]) == size:
        return images
    return F.interpolate(images, size=size, mode="bilinear", antialias=True)


def _bytes(image: Tensor) -> str:
    return b64encode((image * 255).round().clamp(0, 255).byte().cpu().numpy().tobytes()).decode()
