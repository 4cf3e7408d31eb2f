"""Fashion-MNIST in its published layout: idx files, plain or gzipped.

H. Xiao et al., arXiv:1708.07747. The format is that of Y. LeCun's MNIST page: two zero bytes, a type (8 is unsigned
byte), the number of dimensions, each dimension as a big-endian 32-bit number, the bytes.
"""

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.data import DataSource
from scalecurve_worker.training.data.images import DataError, ImageArrays, Split

_WANTED = DataSource.fashion_mnist.wanted
UNSIGNED_BYTE = 8
LARGEST = 1 << 30  # bytes that are looked at; Fashion-MNIST has 47 million
FOLDERS = ("FashionMNIST/raw", "raw", ".")
PREFIXES: dict[Split, str] = {"train": "train", "val": "t10k"}

NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

# Mean and deviation of the training images over 255, as printed by torchvision's references and many others.
MEAN, DEVIATION = 0.2860, 0.3530


def read_fashion_mnist(path: Path, split: Split) -> ImageArrays:
    """Read ``{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]`` in ``path`` or its ``FashionMNIST/raw``."""
    prefix = PREFIXES[split]
    images_file = _find(path, f"{prefix}-images-idx3-ubyte")
    labels_file = _find(path, f"{prefix}-labels-idx1-ubyte")
    images, labels = read_idx(images_file, dimensions=3), read_idx(labels_file, dimensions=1)
    if len(images) != len(labels):
        raise DataError(f"{labels_file}: {len(labels)} labels for the {len(images)} images of {images_file.name}")
    if len(labels) == 0 or images[0].size == 0:
        raise DataError(f"{images_file}: holds no images")
    if labels.max() >= 10:
        raise DataError(f"{labels_file}: label {labels.max()}: expected 0 to 9")
    return ImageArrays(
        images[:, None],
        labels.astype(np.int64),
        classes=10,
        mean=(255 * MEAN,),
        deviation=(255 * DEVIATION,),
        names=NAMES,
    )


def _find(path: Path, name: str) -> Path:
    for folder in FOLDERS:
        for ending in ("", ".gz"):
            file = path / folder / (name + ending)
            if file.is_file():
                return file
    raise DataError(f"{path}: no {name} or {name}.gz here, in raw or in FashionMNIST/raw; expected {_WANTED}")


def read_idx(file: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Read one idx file of unsigned bytes; the array is writable."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            content = stream.read(LARGEST)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read: {error}") from error
    magic, header = bytes((0, 0, UNSIGNED_BYTE, dimensions)), 4 + 4 * dimensions
    if content[:4] != magic or len(content) < header:
        raise DataError(
            f"{file}: begins with {content[:4].hex() or 'nothing'}: "
            f"an idx file of bytes in {dimensions} dimensions begins with {magic.hex()}"
        )
    shape = tuple(int(size) for size in np.frombuffer(content[4:header], ">u4"))
    if len(content) - header != prod(shape):
        raise DataError(f"{file}: dimensions {list(shape)} want {prod(shape)} bytes, {len(content) - header} are there")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()
