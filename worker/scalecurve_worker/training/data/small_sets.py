"""Small image sets by name, among them scikit-learn's 1,797 handwritten digits of 8x8 pixels.

E. Alpaydin and C. Kaynak, "Optical recognition of handwritten digits", UCI Machine Learning Repository, 1998.
"""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.training.data.cifar import read_cifar10
from scalecurve_worker.training.data.idx import read_fashion_mnist
from scalecurve_worker.training.data.images import DataError, ImageArrays, Split, existing_folder

SIDE = 8
WHITE = 16
# Not the experiment's seed: every trial of every experiment is judged on the same items.
SPLIT_SEED = 0
TRAIN_SHARE = 0.8


def read_digits(split: Split) -> ImageArrays:
    """Read one part of a fixed 80/20 split, standardized by the mean and deviation of the training part."""
    table = _table()
    images = table[:, :-1].astype(np.uint8).reshape(-1, 1, SIDE, SIDE)
    labels = table[:, -1].astype(np.int64)
    shuffled = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    cut = round(TRAIN_SHARE * len(labels))
    train, chosen = shuffled[:cut], shuffled[:cut] if split == "train" else shuffled[cut:]
    return ImageArrays(
        images[chosen],
        labels[chosen],
        classes=10,
        mean=(float(images[train].mean()),),
        deviation=(float(images[train].std()),),
        names=tuple("0123456789"),
        white=WHITE,
    )


def _table() -> NDArray[np.float64]:
    """1,797 rows of 64 pixels (0 to 16) and the digit.

    Read from the installed package's file: importing scikit-learn takes a second and brings a second OpenMP
    runtime into the process that is to be timed.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("digits: scikit-learn is not installed; it carries the data (pip install scikit-learn)")
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.is_file():
        from sklearn.datasets import load_digits

        bunch = load_digits()
        return np.column_stack([bunch.data, bunch.target])
    with gzip.open(file, "rt") as lines:
        return np.loadtxt(lines, delimiter=",")


def read_images(source: str, folder: Path | None, split: Split) -> ImageArrays:
    """Read digits, which need no folder, Fashion-MNIST or CIFAR-10."""
    if source == "digits":
        return read_digits(split)
    readers = {"fashion-mnist": read_fashion_mnist, "cifar10": read_cifar10}
    if source not in readers:
        raise DataError(f"{source}: digits, {', '.join(readers)} are read as arrays")
    return readers[source](existing_folder(source, folder), split)
