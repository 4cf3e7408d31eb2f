"""A small image set by its name."""

from __future__ import annotations

from pathlib import Path

from scalecurve_worker.data.cifar import read_cifar10
from scalecurve_worker.data.digits import read_digits
from scalecurve_worker.data.idx import read_fashion_mnist
from scalecurve_worker.data.images import DataError, ImageArrays, Split


def read_images(source: str, folder: Path | None, split: Split) -> ImageArrays:
    """Digits, which need no folder, Fashion-MNIST or CIFAR-10."""
    if source == "digits":
        return read_digits(split)
    readers = {"fashion-mnist": read_fashion_mnist, "cifar10": read_cifar10}
    if source not in readers:
        raise DataError(f"{source}: digits, {', '.join(readers)} are read as arrays")
    if folder is None:
        raise DataError(f"{source}: path: expected the folder of the data set")
    if not folder.is_dir():
        raise DataError(f"{source}: path {folder}: no such folder")
    return readers[source](folder, split)
