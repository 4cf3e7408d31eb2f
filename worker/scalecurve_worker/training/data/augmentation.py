"""What happens to training images, and the rotations, shifts and scalings that are drawn for them: in every framework.

Nothing here touches a pixel; each framework moves them on its devices.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.data import Augmentation
from scalecurve_worker.training.data.images import DataError

PADDED = 8  # pixels of a side for one pixel of padding: four for the 32 of CIFAR, one for the 8 of the digits
_WARPS = 2  # one more word of the seed: crops are the same with warps and without


class AugmentationOptions(Protocol):
    """The fields of ``workload.data`` that change training images."""

    @property
    def augmentation(self) -> Augmentation: ...
    @property
    def rotation(self) -> float: ...
    @property
    def shift(self) -> float: ...
    @property
    def zoom(self) -> float: ...
    @property
    def cutout(self) -> int: ...
    @property
    def instances(self) -> int: ...


@dataclass(frozen=True)
class Augment:
    """What happens to each batch; nothing as it stands.

    ``pad`` is the padding of the random crop in pixels (0: no crop), ``mirror`` whether half of the images are
    mirrored, ``cutout`` the side of the square that is blotted out, ``instances`` how often each sample is there.
    ``rotation`` (degrees), ``shift`` (share of a side) and ``zoom`` (of the scale 1) are the most of each, either way.
    """

    pad: int = 0
    mirror: bool = False
    cutout: int = 0
    instances: int = 1
    rotation: float = 0.0
    shift: float = 0.0
    zoom: float = 0.0

    @property
    def warps(self) -> bool:
        """Whether images are rotated, shifted or scaled."""
        return bool(self.rotation or self.shift or self.zoom)


def augment_for(
    source: str,
    options: AugmentationOptions,
    shape: tuple[int, ...],
    *,
    size: tuple[int, ...] = (),
    flips: bool = False,
    decoded: bool = False,
) -> Augment:
    """Return what training batches of ``shape`` go through.

    ``size`` are the sides of the stored images, to be cropped; ``flips`` tells whether a mirrored image is still of
    its class. Images that are ``decoded`` from files are cropped and mirrored while that is done.

    Raises:
        DataError: images are changed, and these are none, or smaller than the square to be blotted out.
    """
    kind = options.augmentation
    moved = kind is Augmentation.standard or (kind is Augmentation.auto and flips)
    pad = max(1, max(size) // PADDED) if moved and size else 0
    augment = Augment(
        pad,
        not decoded and (kind is Augmentation.flip or (flips and pad > 0)),
        options.cutout,
        options.instances,
        options.rotation,
        options.shift,
        options.zoom,
    )
    changed = kind in (Augmentation.standard, Augmentation.flip) or augment != Augment()
    if len(shape) != 3 and changed:
        what = "augmentation, rotation, shift, zoom, cutout and instances are for [channels, height, width]"
        raise DataError(f"{source}: shape {list(shape)}: {what}")
    if options.cutout and options.cutout > max(shape[1:]):
        raise DataError(f"{source}: cutout {options.cutout}: images have {shape[1]}x{shape[2]} pixels")
    return augment


class Warps:
    """The rotations, shifts and scalings of one epoch, the same whichever worker gets an item."""

    def __init__(self, augment: Augment, items: int, seed: int, epoch: int) -> None:
        """``items`` is the size of the set."""
        self._augment = augment
        random = np.random.default_rng((seed, epoch, _WARPS))
        # From -1 to 1: angle, shift of columns and rows, scale of columns and rows.
        self._drawn = random.random((items, augment.instances, 5), np.float32) * 2 - 1

    def matrices(self, items: NDArray[np.int64], height: int, width: int) -> NDArray[np.float32]:
        """Draw maps from an output to an input pixel (column, row), float32 (instances x items, 2, 3).

        All items once after another, as copies of a batch are laid. Each turns and scales about the middle of the
        image, height and width apart: the recipe of Keras's ImageDataGenerator.
        """
        draws = self._drawn[items].swapaxes(0, 1).reshape(-1, 5).astype(np.float64)
        angle = np.radians(self._augment.rotation) * draws[:, 0]
        shift = self._augment.shift * draws[:, 1:3] * (width, height)
        scale = 1 + self._augment.zoom * draws[:, 3:5]
        cosine, sine = np.cos(angle), np.sin(angle)
        linear = np.stack([cosine, -sine, sine, cosine], axis=1).reshape(-1, 2, 2) / scale[:, None, :]
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        offset = middle + shift - linear @ middle
        return np.concatenate([linear, offset[:, :, None]], axis=2).astype(np.float32)
