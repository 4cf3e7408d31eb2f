"""Augmentation on the device, a batch at a time: copies, crops, mirror images, rotations, shifts, scalings, cutout.

The standard augmentation is that of K. He et al., CVPR 2016, section 4.2. Cutout is T. DeVries and G. W. Taylor,
arXiv:1708.04552; copies of each sample in one batch are batch augmentation, E. Hoffer et al., arXiv:1901.09335.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from scalecurve_worker.training.data.augmentation import Augment, Warps

_CUTS = 1  # one more word of the seed: crops are the same with cutout and without


def stream_seed(*words: int) -> int:
    """Mix non-negative numbers (a seed, a rank, an epoch) into the seed of an independent stream, below 2^63."""
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def copies(augment: Augment, items: Tensor) -> Tensor:
    """Repeat the whole batch ``instances`` times, one after another: micro-batches then hold each sample as often."""
    if augment.instances == 1:
        return items
    return items.repeat(augment.instances, *([1] * (items.dim() - 1)))


class Draws:
    """The random numbers of one worker in one epoch, drawn on the device."""

    def __init__(self, augment: Augment, *, seed: int, rank: int, epoch: int, items: int, device: torch.device) -> None:
        """``items`` is the size of the set."""
        self.augment = augment
        self._moves = torch.Generator(device).manual_seed(stream_seed(seed, rank, epoch))
        self._cuts = torch.Generator(device).manual_seed(stream_seed(seed, rank, epoch, _CUTS))
        self._warps = Warps(augment, items, seed, epoch) if augment.warps else None

    def move(self, images: Tensor) -> Tensor:
        if not (self.augment.pad or self.augment.mirror):
            return images
        return crop_and_flip(images, self._moves, pad=self.augment.pad, mirror=self.augment.mirror)

    def warp(self, images: Tensor, items: Tensor) -> Tensor:
        """Warp images of the items with these numbers, which are on the CPU, or of ``instances`` times all of them."""
        if self._warps is None:
            return images
        matrices = self._warps.matrices(items.numpy(), images.shape[2], images.shape[3])
        drawn = torch.from_numpy(matrices[: len(images)])
        return warp(images, drawn.to(images.device, non_blocking=True))

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


def warp(images: Tensor, matrices: Tensor) -> Tensor:
    """Rotate, shift and scale (batch, c, h, w) by ``Warps.matrices`` on its device: bilinear, fp32.

    What comes from beyond the edge is the nearest pixel of the edge.
    """
    _, _, height, width = images.shape
    columns = torch.arange(width, device=images.device, dtype=torch.float32).expand(height, width)
    rows = torch.arange(height, device=images.device, dtype=torch.float32)[:, None].expand(height, width)
    pixels = torch.stack([columns, rows, torch.ones_like(rows)], dim=-1)
    where = torch.einsum("hwk,bik->bhwi", pixels, matrices)
    # grid_sample's own coordinates, from -1 at one edge of the image to 1 at the other.
    grid = (2 * where + 1) / torch.tensor([width, height], device=images.device) - 1
    return F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)


def cut_out(x: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Set a square of ``side`` pixels in each of (batch, c, h, w) to 0; return a new tensor.

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
