"""Small image sets, kept whole on the device as bytes and made into batches there."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from scalebench_worker.data.images import ImageArrays
from scalebench_worker.torch.data.form import Form, Normaliser
from scalebench_worker.torch.data.loader import Batch, DataSpec, Loader
from scalebench_worker.torch.data.order import Shard, epoch_order, stream_seed

PAD = 4  # pixels on each side, for the random crop of He et al. 2016, section 4.2


class ArrayLoader(Loader):
    """Batches gathered, augmented, normalised and brought to the asked size on the device."""

    def __init__(self, spec: DataSpec, arrays: ImageArrays, shard: Shard, form: Form, *, augment: bool) -> None:
        super().__init__(spec)
        self.shard = shard
        self.form = form
        self.augment = augment and arrays.flips and spec.split == "train"
        self.normalise = Normaliser(arrays.mean, arrays.deviation, form.device)
        self.images = torch.from_numpy(arrays.images).to(form.device)
        self.labels = torch.from_numpy(arrays.labels).to(form.device)

    def _batches(self, epoch: int) -> Iterator[Batch]:
        # A blocking copy would wait for the steps before this epoch.
        order = epoch_order(self.spec, self.shard, epoch).to(self.form.device, non_blocking=True)
        random = torch.Generator(self.form.device)
        random.manual_seed(stream_seed(self.shard.seed, self.shard.rank, epoch))
        for step in range(self.spec.steps):
            chosen = order[step * self.spec.batch : (step + 1) * self.spec.batch]
            images = self.images.index_select(0, chosen)
            if self.augment:
                images = crop_and_flip(images, random)
            yield self._finish(images), self.labels.index_select(0, chosen)

    def _finish(self, images: Tensor) -> Tensor:
        """Bytes (batch, c, h, w) -> normalised numbers (batch, *shape)."""
        x = self.normalise(images)
        channels, *size = self.spec.shape
        if list(x.shape[2:]) != size:
            smaller = size[0] < x.shape[2] or size[1] < x.shape[3]
            x = F.interpolate(x, size=size, mode="bilinear", antialias=smaller)
        return self.form.lay(x.expand(-1, channels, -1, -1))


def crop_and_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Pad by four, crop at random to the same size, mirror half of the images: (batch, c, h, w) -> the same.

    The augmentation of He et al. 2016, section 4.2; each image has its own draw, all in one gather.
    """
    batch, _, height, width = images.shape
    device = images.device
    padded = F.pad(images, (PAD, PAD, PAD, PAD))
    corner = torch.randint(2 * PAD + 1, (2, batch, 1), generator=generator, device=device)
    mirrored = torch.rand((batch, 1), generator=generator, device=device) < 0.5
    rows = corner[0] + torch.arange(height, device=device)
    columns = corner[1] + torch.arange(width, device=device)
    columns = torch.where(mirrored, columns.flip(1), columns)
    item = torch.arange(batch, device=device)
    cropped = padded[item[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)
