from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalecurve_worker.torch.data import DataError, open_data
from scalecurve_worker.training.data.idx import read_fashion_mnist, read_idx


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_fashion_mnist(folder: Path, *, zipped: bool) -> dict[str, np.ndarray[Any, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    content = {}
    for prefix, count in (("train", 12), ("t10k", 5)):
        content[f"{prefix}-images-idx3-ubyte"] = random.integers(0, 256, (count, 28, 28))
        content[f"{prefix}-labels-idx1-ubyte"] = random.integers(0, 10, count)
    for name, array in content.items():
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return content


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("folder", [".", "raw", "FashionMNIST/raw"])
def test_fashion_mnist_is_read_in_its_published_layouts(tmp_path: Path, folder: str, zipped: bool) -> None:
    content = write_fashion_mnist(tmp_path / folder, zipped=zipped)
    train, val = read_fashion_mnist(tmp_path, "train"), read_fashion_mnist(tmp_path, "val")
    assert np.array_equal(train.images[:, 0], content["train-images-idx3-ubyte"])
    assert np.array_equal(train.labels, content["train-labels-idx1-ubyte"])
    assert np.array_equal(val.images[:, 0], content["t10k-images-idx3-ubyte"])
    x, y = next(iter(open_data("fashion-mnist", path=tmp_path, batch=5, split="val")))
    assert x.shape == (5, 1, 28, 28)
    expected = (content["t10k-images-idx3-ubyte"] / 255 - 0.2860) / 0.3530
    np.testing.assert_allclose(x[:, 0].numpy(), expected, rtol=1e-4, atol=1e-5)
    assert y.tolist() == content["t10k-labels-idx1-ubyte"].tolist()


def assert_named_or_read(read: Callable[[], bool], file: Path) -> None:
    problem = ""
    try:
        good = read()
    except DataError as error:
        good, problem = True, str(error)
    assert good
    assert not problem or str(file) in problem


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (IMAGES, None, f"no {IMAGES} or {IMAGES}.gz here, in raw or in FashionMNIST/raw"),
        (IMAGES, b"", f"{IMAGES}: begins with nothing: an idx file of bytes in 3 dimensions begins with 00000803"),
        (IMAGES, b"\x1f\x8b\x08\x00abc", f"{IMAGES}: begins with 1f8b0800"),
        (IMAGES, idx(np.zeros(12)), f"{IMAGES}: begins with 00000801"),
        (IMAGES, idx(np.zeros((12, 28, 28)))[:-1], "dimensions [12, 28, 28] want 9408 bytes, 9407 are there"),
        (IMAGES, idx(np.zeros((12, 28, 28))) + b"x", "dimensions [12, 28, 28] want 9408 bytes, 9409 are there"),
        (IMAGES, idx(np.zeros((0, 28, 28))), f"{LABELS}: 12 labels for the 0 images of {IMAGES}"),
        (LABELS, idx(np.zeros(11)), f"{LABELS}: 11 labels for the 12 images of {IMAGES}"),
        (LABELS, idx(np.full(12, 10)), f"{LABELS}: label 10: expected 0 to 9"),
    ],
)
def test_a_damaged_fashion_mnist_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    write_fashion_mnist(tmp_path, zipped=False)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        open_data("fashion-mnist", path=tmp_path, batch=1)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_an_empty_fashion_mnist_is_named(tmp_path: Path) -> None:
    write_fashion_mnist(tmp_path, zipped=False)
    (tmp_path / IMAGES).write_bytes(idx(np.zeros((0, 28, 28))))
    (tmp_path / LABELS).write_bytes(idx(np.zeros(0)))
    with pytest.raises(DataError, match="holds no images"):
        open_data("fashion-mnist", path=tmp_path, batch=1)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_zipped_idx_file_is_an_error_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(gzip.compress(idx(np.arange(24).reshape(2, 3, 4))))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    file = tmp_path / "damaged.gz"
    file.write_bytes(bytes(content[:cut] if data.draw(st.booleans()) else content))
    assert_named_or_read(lambda: read_idx(file, dimensions=3).ndim == 3, file)
