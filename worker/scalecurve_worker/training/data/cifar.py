"""CIFAR-10 in its published Python layout, read as untrusted input.

A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009. The batches are pickles, and a pickle
can run anything. Here nothing named in the file is imported or called: the few names that an array needs are
answered by stand-ins that keep the bytes.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.data import DataSource
from scalecurve_worker.training.data.images import DataError, ImageArrays, Split

FOLDER = "cifar-10-batches-py"
FILES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "val": ("test_batch",),
}
PIXELS = 3 * 32 * 32

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

# Mean and deviation of the training images over 255, as printed by most CIFAR-10 training scripts.
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)


def read_cifar10(path: Path, split: Split) -> ImageArrays:
    """Read ``cifar-10-batches-py`` in ``path``, or ``path`` itself if it is that folder."""
    folder = path / FOLDER if (path / FOLDER).is_dir() else path
    batches = [_read_batch(folder / name) for name in FILES[split]]
    return ImageArrays(
        np.concatenate([images for images, _ in batches]),
        np.concatenate([labels for _, labels in batches]),
        classes=10,
        mean=tuple(255 * mean for mean in MEAN),
        deviation=tuple(255 * deviation for deviation in DEVIATION),
        flips=True,
        names=NAMES,
    )


def _read_batch(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if not file.is_file():
        raise DataError(f"{file}: no such file; expected {DataSource.cifar10.wanted}")
    try:
        content = _Reader(io.BytesIO(file.read_bytes())).load()
    except Exception as error:  # the interpreter of a damaged pickle may run into anything
        raise DataError(f"{file}: is not a readable CIFAR-10 batch: {str(error) or type(error).__name__}") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}: holds a {type(content).__name__}: expected a dictionary of data and labels")
    images = _pixels(file, content.get(b"data", content.get("data")))
    labels = content.get(b"labels", content.get("labels"))
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise DataError(f"{file}: labels: expected a list of numbers from 0 to 9")
    if len(labels) != len(images) or not labels:
        raise DataError(f"{file}: {len(labels)} labels for {len(images)} images")
    return images, np.array(labels, np.int64)


def _pixels(file: Path, data: object) -> NDArray[np.uint8]:
    if not isinstance(data, _Array):
        raise DataError(f"{file}: data: expected an array")
    if data.kind not in ("u1", "|u1") or len(data.shape) != 2 or data.shape[1] != PIXELS:
        raise DataError(f"{file}: data: {data.kind} {list(data.shape)}: expected bytes [items, {PIXELS}]")
    if len(data.content) != data.shape[0] * PIXELS:
        raise DataError(f"{file}: data: {len(data.content)} bytes for shape {list(data.shape)}")
    pixels = np.frombuffer(data.content, np.uint8).copy()
    if data.by_columns:
        pixels = pixels.reshape(PIXELS, -1).T.copy()
    return pixels.reshape(-1, 3, 32, 32)


class _Array:
    """Keeps what the pickle says about an array: type, shape, order and bytes."""

    def __init__(self, *arguments: object) -> None:
        self.kind = ""
        self.shape: tuple[int, ...] = ()
        self.by_columns = False
        self.content = b""

    def __setstate__(self, state: object) -> None:
        match state:
            case (int(), tuple(shape), _Type(kind=kind), int(by_columns), bytes(content)):
                if not all(type(size) is int and size >= 0 for size in shape):
                    raise pickle.UnpicklingError("an array's shape is not of numbers")
                self.shape, self.kind, self.by_columns, self.content = shape, kind, bool(by_columns), content
            case _:
                raise pickle.UnpicklingError("an array's state is not understood")


class _Type:
    def __init__(self, kind: object = "", *arguments: object) -> None:
        self.kind = kind.decode("latin1") if isinstance(kind, bytes) else str(kind)

    def __setstate__(self, state: object) -> None:
        """Byte order and the like: nothing that a byte has."""


class _Encode:
    """``_codecs.encode``, by which Python 3 writes bytes so that Python 2 can read them."""

    def __call__(self, text: object, encoding: object = "latin1") -> bytes:
        if not isinstance(text, str):
            raise pickle.UnpicklingError("bytes are not written as text")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a function has no state")


_NAMES: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _Encode(),
}


class _Reader(pickle._Unpickler):
    """The pickle interpreter in Python, with five names and no others.

    Not the one in C: a damaged file can ask that one for a table of 2^32 entries, and it obliges. Byte arrays are
    excluded for the same reason: their size is believed before the bytes are there.
    """

    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]}

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which a CIFAR-10 batch does not") from None
