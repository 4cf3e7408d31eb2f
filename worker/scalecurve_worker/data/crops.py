"""Which part of a picture is shown, as (left, top, right, bottom) in its own pixels; the caller scales it."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np

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
    return _centred(size, min(max(width / height, RATIO[0]), RATIO[1]), share=1.0)


def middle_crop(size: Size, target: Size) -> Box:
    """The centre of a picture of (width, height), in the proportions of ``target``."""
    return _centred(size, target[0] / target[1], share=MIDDLE)


def _centred(size: Size, ratio: float, *, share: float) -> Box:
    """The largest centred box of that width / height, shrunk to a share of its sides."""
    width, height = size
    crop_width = share * min(width, height * ratio)
    crop_height = share * min(height, width / ratio)
    left, top = (width - crop_width) / 2, (height - crop_height) / 2
    return max(left, 0.0), max(top, 0.0), min(left + crop_width, width), min(top + crop_height, height)
