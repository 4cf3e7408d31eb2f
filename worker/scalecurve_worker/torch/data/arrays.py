"""Small image sets, kept on the device as bytes and turned into batches there."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from scalecurve_worker.torch.data.augment import copies
from scalecurve_worker.torch.data.loader import Batch, BatchFormat, DataShard, DataSpec, Loader, Normalizer, epoch_order
from scalecurve_worker.training.data.augmentation import Augment
from scalecurve_worker.training.data.images import ImageArrays


class ArrayLoader(Loader):
    """Batches gathered, augmented, normalized and brought to the requested size on the device."""

    def __init__(
        self, spec: DataSpec, shard: DataShard, form: BatchFormat, augment: Augment, arrays: ImageArrays
    ) -> None:
        super().__init__(spec, shard, form, augment)
        self.arrays = arrays
        self.class_names, self.labels_of_all = arrays.names, arrays.labels
        self.normalize = Normalizer(arrays.mean, arrays.deviation, form.device)
        self.images = torch.from_numpy(arrays.images).to(form.device)
        self.labels = torch.from_numpy(arrays.labels).to(form.device)

    def _batches(self, epoch: int) -> Iterator[Batch]:
        order = epoch_order(self.spec, self.shard, epoch)
        # A blocking copy would wait for the steps before this epoch.
        there = order.to(self.form.device, non_blocking=True)
        draws = self.draws(epoch)
        for step in range(self.spec.steps):
            part = slice(step * self.spec.batch, (step + 1) * self.spec.batch)
            chosen = copies(self.augment, there[part])
            images = draws.warp(draws.move(self.images.index_select(0, chosen)), order[part])
            yield draws.cut(self._finish(images)), self.labels.index_select(0, chosen)

    def examples(self, items: Sequence[int]) -> tuple[Tensor, Tensor]:
        chosen = torch.tensor(items)
        stored = self.images.index_select(0, chosen.to(self.form.device))
        draws = self.draws(0)
        trained = self.normalize.undo(draws.cut(self._finish(draws.warp(draws.move(stored), chosen))))
        return stored.float() / self.arrays.white, trained / self.arrays.white

    def _finish(self, images: Tensor) -> Tensor:
        x = self.normalize(images)
        channels, *size = self.spec.shape
        if list(x.shape[2:]) != size:
            smaller = size[0] < x.shape[2] or size[1] < x.shape[3]
            x = F.interpolate(x, size=size, mode="bilinear", antialias=smaller)
        return self.form.lay(x.expand(-1, channels, -1, -1))
