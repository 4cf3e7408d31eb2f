"""Small image sets, kept on the device as bytes and turned into batches there."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from scalecurve_worker.data.images import ImageArrays
from scalecurve_worker.torch.data.augment import Augment, Draws
from scalecurve_worker.torch.data.loader import Batch, BatchFormat, DataSpec, Loader, Normaliser
from scalecurve_worker.torch.data.sampler import DataShard, epoch_order


class ArrayLoader(Loader):
    """Batches gathered, augmented, normalised and brought to the asked size on the device."""

    def __init__(
        self, spec: DataSpec, arrays: ImageArrays, shard: DataShard, form: BatchFormat, *, augment: Augment
    ) -> None:
        super().__init__(spec)
        self.shard = shard
        self.form = form
        self.augment = augment
        self.arrays = arrays
        self.normalise = Normaliser(arrays.mean, arrays.deviation, form.device)
        self.images = torch.from_numpy(arrays.images).to(form.device)
        self.labels = torch.from_numpy(arrays.labels).to(form.device)

    def _batches(self, epoch: int) -> Iterator[Batch]:
        # A blocking copy would wait for the steps before this epoch.
        order = epoch_order(self.spec, self.shard, epoch).to(self.form.device, non_blocking=True)
        draws = Draws(self.augment, self.shard, epoch, self.form.device)
        for step in range(self.spec.steps):
            chosen = self.augment.copies(order[step * self.spec.batch : (step + 1) * self.spec.batch])
            images = draws.move(self.images.index_select(0, chosen))
            yield draws.cut(self._finish(images)), self.labels.index_select(0, chosen)

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.arrays.names

    def labels_of_all(self) -> NDArray[np.int64]:
        return self.arrays.labels

    def examples(self, items: Sequence[int]) -> tuple[Tensor, Tensor]:
        stored = self.images.index_select(0, torch.tensor(items, device=self.form.device))
        draws = Draws(self.augment, self.shard, 0, self.form.device)
        trained = draws.cut(self._finish(draws.move(stored)))
        white = self.arrays.white
        return stored.float() / white, self.normalise.undo(trained) / white

    def _finish(self, images: Tensor) -> Tensor:
        x = self.normalise(images)
        channels, *size = self.spec.shape
        if list(x.shape[2:]) != size:
            smaller = size[0] < x.shape[2] or size[1] < x.shape[3]
            x = F.interpolate(x, size=size, mode="bilinear", antialias=smaller)
        return self.form.lay(x.expand(-1, channels, -1, -1))
