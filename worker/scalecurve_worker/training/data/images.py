"""One split of an image set as arrays."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.data import DataSource

Split = Literal["train", "val"]
FolderSplit = Literal["train", "val", "test"]


class DataError(ValueError):
    """A data set that is absent, damaged, or does not fit what was asked; the message names the file."""


@dataclass(frozen=True)
class ImageArrays:
    """One split of a set as arrays.

    ``images`` is uint8 (items, channels, height, width), 0 to ``white``, ``labels`` int64 (items,); ``mean`` and
    ``deviation`` are per channel, on the scale of the bytes. ``flips`` tells whether a mirrored image is still of its
    class, and so whether the standard crop-and-flip augmentation applies; ``names`` are those of the classes.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    flips: bool = False
    names: tuple[str, ...] = ()
    white: int = 255


def existing_folder(source: str, path: Path | None) -> Path:
    """Return the folder of a set; raise a DataError where none is named or there."""
    wanted = DataSource(source).wanted
    if path is None:
        raise DataError(f"{source}: path: expected {wanted}")
    if not path.is_dir():
        raise DataError(f"{source}: path {path}: no such folder; expected {wanted}")
    return path


def check_arrays(source: str, arrays: ImageArrays, *, shape: tuple[int, ...], classes: int) -> None:
    """Refuse a shape or a class count that the set cannot be brought to."""
    channels = arrays.images.shape[1]
    if classes < arrays.classes:
        raise DataError(f"{source}: classes {classes}: the set has {arrays.classes}")
    if len(shape) != 3:
        raise DataError(f"{source}: shape {list(shape)}: expected [channels, height, width]")
    if channels != 1 and shape[0] != channels:
        raise DataError(f"{source}: shape {list(shape)}: the images have {channels} channels")
