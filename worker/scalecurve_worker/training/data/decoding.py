"""Decodes pictures on disk: opened, cropped and scaled identically under every framework."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from importlib.util import find_spec
from math import exp, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.data import Augmentation
from scalecurve_worker.training.data.image_list import ImageList, list_images
from scalecurve_worker.training.data.images import DataError, FolderSplit

if TYPE_CHECKING:
    from PIL.Image import Image

# The training crop: a share of the area and an aspect ratio. Section 6 of C. Szegedy et al., CVPR 2015.
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10
# The validation crop: the middle 224 pixels when the shorter side has 256, as nearly every ImageNet result.
MIDDLE = 224 / 256

Size = tuple[int, int]
Box = tuple[float, float, float, float]


def random_crop(size: Size, random: np.random.Generator) -> Box:
    """Draw a part of a picture of (width, height) by ``AREA`` and ``RATIO``; the whole middle if none fits."""
    width, height = size
    for _ in range(ATTEMPTS):
        area = width * height * random.uniform(*AREA)
        ratio = exp(random.uniform(log(RATIO[0]), log(RATIO[1])))
        crop_width, crop_height = round(sqrt(area * ratio)), round(sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left = int(random.integers(width - crop_width + 1))
            top = int(random.integers(height - crop_height + 1))
            return left, top, left + crop_width, top + crop_height
    return _middle_box(size, min(max(width / height, RATIO[0]), RATIO[1]), share=1.0)


def middle_crop(size: Size, target: Size) -> Box:
    """Return the center of a picture of (width, height), in the proportions of ``target``."""
    return _middle_box(size, target[0] / target[1], share=MIDDLE)


def _middle_box(size: Size, ratio: float, *, share: float) -> Box:
    """The largest centred box of that width / height, shrunk to a share of its sides."""
    width, height = size
    crop_width = share * min(width, height * ratio)
    crop_height = share * min(height, width / ratio)
    left, top = (width - crop_width) / 2, (height - crop_height) / 2
    return max(left, 0.0), max(top, 0.0), min(left + crop_width, width), min(top + crop_height, height)


# Mean and deviation over ImageNet's training images, as printed by torchvision; for grey, their means.
MEAN = {1: (0.449,), 3: (0.485, 0.456, 0.406)}
DEVIATION = {1: (0.226,), 3: (0.229, 0.224, 0.225)}


def open_image_list(
    path: Path,
    split: FolderSplit,
    *,
    shape: tuple[int, ...],
    classes: int | None,
    validation: float | None = None,
    split_seed: int = 0,
) -> ImageList:
    """List a folder and refuse what it cannot give."""
    if find_spec("PIL") is None:
        raise DataError("image-folder: Pillow is not installed; it decodes the images (pip install pillow)")
    if len(shape) != 3 or shape[0] not in MEAN:
        raise DataError(f"image-folder: shape {list(shape)}: expected [1 or 3, height, width]")
    images = list_images(path, split, validation=validation, split_seed=split_seed)
    if classes is not None and classes < images.classes:
        folder = images.folder if validation is not None else path / "train"
        raise DataError(f"{folder}: classes {classes}: there are {images.classes} class folders")
    return images


def open_picture(file: Path, channels: int) -> Image:
    """Decode a file, in color or grey."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            return image.convert("RGB" if channels == 3 else "L")
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise DataError(f"{file}: cannot be decoded: {error}") from error


def pixels_of(
    picture: Image, shape: tuple[int, ...], random: np.random.Generator | None, *, crop: bool = True
) -> NDArray[np.uint8]:
    """Return bytes (height, width, channels) for ``shape`` (channels, height, width): the middle, or a random crop.

    With a generator half of the pictures are mirrored, those that are not cropped, too.
    """
    from PIL import Image

    channels, height, width = shape
    drawn = random if crop else None
    box = middle_crop(picture.size, (width, height)) if drawn is None else random_crop(picture.size, drawn)
    picture = picture.resize((width, height), Image.Resampling.BILINEAR, box=box)
    if random is not None and random.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.array(picture, np.uint8).reshape(height, width, channels)


@dataclass(frozen=True)
class TrainingDecoder:
    """Decodes an item of a set for an epoch: once, and then cropped and mirrored anew for each of its ``instances``.

    What is drawn depends on the item and not on the process, worker or framework that decodes it.
    """

    images: ImageList
    shape: tuple[int, ...]
    augmentation: Augmentation
    seed: int
    instances: int = 1

    def pixels(self, index: int, epoch: int) -> NDArray[np.uint8]:
        """Return bytes (instances, height, width, channels)."""
        moves = self.augmentation is not Augmentation.none
        random = np.random.default_rng((self.seed, epoch, index)) if moves else None
        picture = open_picture(self.images.file(index), self.shape[0])
        crop = self.augmentation is not Augmentation.flip
        return np.stack([pixels_of(picture, self.shape, random, crop=crop) for _ in range(self.instances)])
