"""What the record shows of a data set: counts by class, and some images before and after augmentation."""

from base64 import b64encode

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from scalecurve_api.record.rank import DatasetFacts, Picture
from scalecurve_worker.torch.data.loader import Loader

PICTURES = 8
LARGEST = 32  # pixels of a side, so that all of them stay small beside the rest of a record


def dataset_facts(training: Loader, validation: Loader) -> DatasetFacts:
    """Counts of both splits, and the first training image of each of the first eight classes."""
    facts = DatasetFacts(train=training.spec.items, val=validation.spec.items)
    labels = training.labels_of_all()
    if labels is None:
        return facts
    counts = np.bincount(labels, minlength=len(training.class_names))
    present, first = np.unique(labels, return_index=True)
    items = first[:PICTURES].tolist()
    pictures = [
        Picture(label=label, shape=list(trained.shape), original=_bytes(original), trained=_bytes(trained))
        for label, original, trained in zip(
            present[:PICTURES].tolist(), *_small(*training.examples(items)), strict=True
        )
    ]
    names = list(training.class_names)
    return facts.model_copy(update={"class_counts": counts.tolist(), "class_names": names, "pictures": pictures})


def _small(original: Tensor, trained: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the size of the trained images, or as much smaller as the largest side wants."""
    *_, height, width = trained.shape
    by = min(1.0, LARGEST / max(height, width))
    size = (max(1, round(height * by)), max(1, round(width * by)))
    resized = [_resized(images, size).expand(-1, trained.shape[1], -1, -1) for images in (original, trained)]
    return resized[0], resized[1]


def _resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(images.shape[2:]) == size:
        return images
    return F.interpolate(images, size=size, mode="bilinear", antialias=True)


def _bytes(image: Tensor) -> str:
    return b64encode((image * 255).round().clamp(0, 255).byte().cpu().numpy().tobytes()).decode()
