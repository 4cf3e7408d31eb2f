from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalecurve_api.programs.data import Augmentation
from scalecurve_worker.torch.data import DataError, DataOptions, open_data
from scalecurve_worker.training.data.cifar import read_cifar10


def assert_named_or_read(read: Callable[[], bool], file: Path) -> None:
    problem = ""
    try:
        good = read()
    except DataError as error:
        good, problem = True, str(error)
    assert good
    assert not problem or str(file) in problem


def python2_batch(images: np.ndarray[Any, Any], labels: list[int]) -> bytes:
    """A batch as Python 2's pickle wrote the published files, opcode by opcode."""

    def short(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    raw = images.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + short(b"b") + b"tR"
        b"(K\x01(" + number(images.shape[0]) + number(images.shape[1]) + b"t"
        b"cnumpy\ndtype\n(" + short(b"u1") + b"K\x00K\x01tR(K\x03" + short(b"|") + b"NNN" + 2 * number(-1) + b"K\x00tb"
        b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    )
    return (
        b"\x80\x02}(" + short(b"batch_label") + short(b"training batch 1 of 5")
        + short(b"labels") + b"](" + b"".join(number(label) for label in labels) + b"e"
        + short(b"data") + array + short(b"filenames") + b"](" + short(b"a.png") + b"eu."
    )  # fmt: skip


def python3_batch(images: np.ndarray[Any, Any], labels: list[int], *, protocol: int = 2) -> bytes:
    return pickle.dumps({b"data": images, b"labels": labels}, protocol=protocol)


def write_cifar10(folder: Path, make: Callable[..., bytes] = python2_batch) -> dict[str, tuple[Any, list[int]]]:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    content = {}
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        images = random.integers(0, 256, (4, 3072), dtype=np.uint8)
        labels = random.integers(0, 10, 4).tolist()
        (folder / name).write_bytes(make(images, labels))
        content[name] = (images, labels)
    return content


@pytest.mark.parametrize("make", [python2_batch, python3_batch, lambda x, y: python3_batch(x, y, protocol=4)])
def test_cifar10_is_read_in_its_published_layout(tmp_path: Path, make: Callable[..., bytes]) -> None:
    content = write_cifar10(tmp_path / "cifar-10-batches-py", make)
    for path in (tmp_path, tmp_path / "cifar-10-batches-py"):
        train, val = read_cifar10(path, "train"), read_cifar10(path, "val")
        assert train.images.shape == (20, 3, 32, 32)
        assert np.array_equal(train.images[4:8].reshape(4, -1), content["data_batch_2"][0])
        assert train.labels.tolist() == [label for name in sorted(content)[:5] for label in content[name][1]]
        assert np.array_equal(val.images.reshape(4, -1), content["test_batch"][0])
    x, y = next(iter(open_data("cifar10", path=tmp_path, batch=4, split="val")))
    mean, deviation = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    pixels = content["test_batch"][0].reshape(4, 3, 32, 32) / 255
    expected = (pixels - mean[:, None, None]) / deviation[:, None, None]
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert y.tolist() == content["test_batch"][1]


def test_cifar10_arrays_in_column_order_are_read(tmp_path: Path) -> None:
    content = write_cifar10(tmp_path, lambda images, labels: python3_batch(np.asfortranarray(images), labels))
    val = read_cifar10(tmp_path, "val")
    assert np.array_equal(val.images.reshape(4, -1), content["test_batch"][0])


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


PIXELS = np.zeros((4, 3072), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "test_batch: no such file; expected the folder that holds cifar-10-batches-py"),
        (b"", "is not a readable CIFAR-10 batch: EOFError"),
        (b"not a pickle", "is not a readable CIFAR-10 batch"),
        (python2_batch(PIXELS, [1, 2, 3, 4])[:-200], "is not a readable CIFAR-10 batch"),
        (b"\x80\x05\x96" + struct.pack("<q", 1 << 40) + b"abc", "is not a readable CIFAR-10 batch"),
        (b"T\x01\x00", "is not a readable CIFAR-10 batch"),
        (pickle.dumps([1]), "holds a list: expected a dictionary of data and labels"),
        (pickle.dumps({b"labels": [1]}), "data: expected an array"),
        (pickle.dumps({b"data": b"abc", b"labels": [1]}), "data: expected an array"),
        (python3_batch(PIXELS[:, :10], [1] * 4), "data: u1 [4, 10]: expected bytes [items, 3072]"),
        (python3_batch(PIXELS.astype(np.int64), [1] * 4), "data: i8 [4, 3072]: expected bytes [items, 3072]"),
        (python2_batch(PIXELS, [1] * 4).replace(b"J\x04\x00", b"J\x05\x00"), "data: 12288 bytes for shape [5, 3072]"),
        (python3_batch(PIXELS, [1, 2, 3]), "3 labels for 4 images"),
        (python2_batch(PIXELS[:0], []), "0 labels for 0 images"),
        (python3_batch(PIXELS, [1, 2, 3, 10]), "labels: expected a list of numbers from 0 to 9"),
        (python3_batch(PIXELS, ["a"] * 4), "labels: expected a list of numbers from 0 to 9"),  # type: ignore[list-item]
        (pickle.dumps({b"data": Runs()}), "it names posix.mkdir, which a CIFAR-10 batch does not"),
        (b"c__builtin__\neval\n(U\x011tR.", "it names __builtin__.eval, which a CIFAR-10 batch does not"),
        (b"c_codecs\nencode\n}U\x04nameK\x01sb.", "a function has no state"),
        (b"c_codecs\nencode\n(K\x05tR.", "bytes are not written as text"),
        (b"cnumpy\nndarray\n(tR(K\x01tb.", "an array's state is not understood"),
    ],
)
def test_a_damaged_or_hostile_cifar10_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_cifar10(tmp_path)
    if content is None:
        (tmp_path / "test_batch").unlink()
    else:
        (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(DataError) as caught:
        open_data("cifar10", path=tmp_path, batch=1, split="val")
    assert message in str(caught.value)
    assert str(tmp_path / "test_batch") in str(caught.value)
    assert not (tmp_path / "ran").exists()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_cifar10_batch_is_an_error_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(python2_batch(PIXELS[:1], [3]))
    head = [place for place in range(len(content)) if place < 250 or place > len(content) - 60]
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.sampled_from(head))] = data.draw(st.integers(0, 255))
    (tmp_path / "test_batch").write_bytes(bytes(content))
    assert_named_or_read(lambda: read_cifar10(tmp_path, "val").images.shape[1:] == (3, 32, 32), tmp_path)


def test_colour_does_not_become_grey(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    with pytest.raises(DataError, match=r"shape \[1, 32, 32\]: the images have 3 channels"):
        open_data("cifar10", path=tmp_path, batch=1, shape=(1, 32, 32))


def test_cifar10_is_augmented_in_training_only(tmp_path: Path) -> None:
    write_cifar10(tmp_path)

    def epoch(number: int, **arguments: Any) -> torch.Tensor:
        loader = open_data("cifar10", path=tmp_path, batch=4, **arguments)
        loader.set_epoch(number)
        return torch.cat([x for x, _ in loader]).flatten(1)

    def as_sets(images: torch.Tensor) -> set[tuple[float, ...]]:
        return {tuple(row) for row in images.tolist()}

    plain = DataOptions(augmentation=Augmentation.none)
    assert as_sets(epoch(0, options=plain)) == as_sets(epoch(1, options=plain))
    assert torch.equal(epoch(0), epoch(0))
    assert not as_sets(epoch(0)) & as_sets(epoch(1))
    assert as_sets(epoch(0, split="val")) == as_sets(epoch(1, split="val"))
