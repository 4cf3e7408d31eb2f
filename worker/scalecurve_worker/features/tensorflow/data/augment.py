"""Augmentation on the device, a batch at a time; what is drawn comes from the host.

The standard augmentation is that of K. He et al., CVPR 2016, section 4.2. Cutout is T. DeVries and G. W. Taylor,
arXiv:1708.04552; copies of each sample in one batch are batch augmentation, E. Hoffer et al., arXiv:1901.09335.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.training.data.augmentation import Augment, Warps

_CUTS = 1  # one more word of the seed: crops are the same with cutout and without


class Augmenter:
    """Crops, mirrors, warps and cuts the batches of one process's replicas.

    A step of a replica has draws of its own, but for rotations, shifts and scalings, which are the item's.
    """

    def __init__(self, augment: Augment, seed: int, items: int) -> None:
        """``items`` is the size of the set."""
        self._augment, self._seed, self._items = augment, seed, items
        self._warps: tuple[int, Warps] | None = None
        self._move, self._warp, self._cut = (
            tf.function(each, reduce_retracing=True) for each in (_move, warp, cut_out)
        )

    def copies(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Repeat all items ``instances`` times, one after another."""
        return np.tile(items, self._augment.instances)

    def begin(self, epoch: int) -> None:
        """Draw the rotations, shifts and scalings of an epoch."""
        if self._augment.warps and (self._warps is None or self._warps[0] != epoch):
            self._warps = epoch, Warps(self._augment, self._items, self._seed, epoch)

    def move(self, images: Any, replica: int, epoch: int, step: int) -> Any:
        """Crop images (batch, h, w, c) from a padded image and mirror them."""
        pad = self._augment.pad
        if not (pad or self._augment.mirror):
            return images
        random = np.random.default_rng((self._seed, replica, epoch, step))
        batch, height, width = (int(size) for size in images.shape[:3])
        rows = np.arange(height) + random.integers(2 * pad + 1, size=(batch, 1))
        columns = np.arange(width) + random.integers(2 * pad + 1, size=(batch, 1))
        if self._augment.mirror:
            mirrored = random.random((batch, 1)) < 0.5
            columns = np.where(mirrored, columns[:, ::-1], columns)
        return self._move(images, rows, columns, pad)

    def warp(self, images: Any, items: NDArray[np.int64]) -> Any:
        """Warp images of the items of an epoch that has begun, or of ``instances`` times all of them."""
        if self._warps is None:
            return images
        return self._warp(images, self._warps[1].matrices(items, int(images.shape[1]), int(images.shape[2])))

    def cut(self, x: Any, replica: int, epoch: int, step: int) -> Any:
        """Set a square of each input to zero."""
        side = self._augment.cutout
        if not side:
            return x
        random = np.random.default_rng((self._seed, replica, epoch, step, _CUTS))
        batch, height, width = (int(size) for size in x.shape[:3])
        tops, lefts = (random.integers(size, size=(batch, 1)) - side // 2 for size in (height, width))
        return self._cut(x, tops, lefts, side)


def _move(images: Any, rows: Any, columns: Any, pad: int) -> Any:
    padded = tf.pad(images, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
    return tf.gather(tf.gather(padded, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)


def warp(images: Any, matrices: Any) -> Any:
    """Rotate, shift and scale (batch, h, w, c) by ``Warps.matrices``: bilinear, fp32.

    What comes from beyond the edge is the nearest pixel of the edge.
    """
    batch = tf.shape(matrices)[0]
    transforms = tf.concat([tf.reshape(matrices, [batch, 6]), tf.zeros([batch, 2])], axis=1)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(images, tf.float32),
        transforms=transforms,
        output_shape=tf.shape(images)[1:3],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="NEAREST",
    )


def cut_out(x: Any, tops: Any, lefts: Any, side: int) -> Any:
    """Set a square of ``side`` pixels in each of (batch, h, w, c) to 0; what lies beyond the edge is lost.

    Zero is the mean of normalized images.
    """
    rows, columns = tf.range(x.shape[1], dtype=tf.int64), tf.range(x.shape[2], dtype=tf.int64)
    high = (rows >= tops) & (rows < tops + side)
    wide = (columns >= lefts) & (columns < lefts + side)
    inside = (high[:, :, None] & wide[:, None, :])[..., None]
    return tf.where(inside, tf.zeros_like(x), x)
