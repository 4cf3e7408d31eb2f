"""Augmentation on the device, a batch at a time: copies, crops, mirror images, cutout.

The standard augmentation is that of K. He et al., CVPR 2016, section 4.2. Cutout is T. DeVries and G. W. Taylor,
arXiv:1708.04552; copies of each sample in one batch are batch augmentation, E. Hoffer et al., arXiv:1901.09335.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from scalecurve_worker.data.images import DataError
from scalecurve_worker.torch.data.sampler import DataShard, stream_seed

PADDED = 8  # pixels of a side for one pixel of padding: four for the 32 of CIFAR, one for the 8 of the digits
_CUTS = 1  # one more word of the seed: crops are the same with cutout and without


@dataclass(frozen=True)
class Augment:
    """What happens to each batch; nothing as it stands.

    ``pad`` is the padding of the random crop in pixels (0: no crop), ``mirror`` whether half of the images are
    mirrored, ``cutout`` the side of the square that is blotted out, ``instances`` how often each sample is there.
    """

    pad: int = 0
    mirror: bool = False
    cutout: int = 0
    instances: int = 1

    def check(self, source: str, shape: tuple[int, ...]) -> None:
        """Refuse what such samples cannot go through."""
        if self == Augment():
            return
        if len(shape) != 3:
            raise DataError(
                f"{source}: shape {list(shape)}: augmentation, cutout and instances are for [channels, height, width]"
            )
        if self.cutout > max(shape[1:]):
            raise DataError(f"{source}: cutout {self.cutout}: images have {shape[1]}x{shape[2]} pixels")

    def copies(self, items: Tensor) -> Tensor:
        """``instances`` times the whole batch, one after another: micro-batches then hold each sample as often."""
        return items if self.instances == 1 else items.repeat(self.instances, *([1] * (items.dim() - 1)))


class Draws:
    """The random numbers of one worker in one epoch, drawn on the device."""

    def __init__(self, augment: Augment, shard: DataShard, epoch: int, device: torch.device) -> None:
        self.augment = augment
        words = (shard.seed, shard.rank, epoch)
        self._moves = torch.Generator(device).manual_seed(stream_seed(*words))
        self._cuts = torch.Generator(device).manual_seed(stream_seed(*words, _CUTS))

    def move(self, images: Tensor) -> Tensor:
        if not self.augment.pad:
            return images
        return crop_and_flip(images, self._moves, pad=self.augment.pad, mirror=self.augment.mirror)

    def cut(self, x: Tensor) -> Tensor:
        return cut_out(x, self.augment.cutout, self._cuts) if self.augment.cutout else x


def crop_and_flip(images: Tensor, generator: torch.Generator, *, pad: int = 4, mirror: bool = True) -> Tensor:
    """Pad, crop at random to the same size, mirror half of the images: (batch, c, h, w) -> the same.

    Each image has its own draw, all in one gather.
    """
    batch, _, height, width = images.shape
    device = images.device
    padded = F.pad(images, (pad, pad, pad, pad))
    corner = torch.randint(2 * pad + 1, (2, batch, 1), generator=generator, device=device)
    rows = corner[0] + torch.arange(height, device=device)
    columns = corner[1] + torch.arange(width, device=device)
    if mirror:
        mirrored = torch.rand((batch, 1), generator=generator, device=device) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    item = torch.arange(batch, device=device)
    cropped = padded[item[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def cut_out(x: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Zero a square of ``side`` pixels in each of (batch, c, h, w); a new tensor.

    Its centre is any pixel, all alike, and what lies beyond the edge is lost, as section 3.2 of DeVries and Taylor
    found to matter; a square of even side has its centre right and below of the middle. Zero is the mean of
    normalised images.
    """
    batch, _, height, width = x.shape
    rows = _span(batch, height, side, generator)
    columns = _span(batch, width, side, generator)
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)


def _span(batch: int, length: int, side: int, generator: torch.Generator) -> Tensor:
    """Which of ``length`` pixels are at most half a side from a pixel drawn for each image: (batch, length)."""
    device = generator.device
    first = torch.randint(length, (batch, 1), generator=generator, device=device) - side // 2
    pixels = torch.arange(length, device=device)
    return (pixels >= first) & (pixels < first + side)
