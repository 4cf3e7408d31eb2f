from __future__ import annotations

import gzip
import itertools
import os
import pickle
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DistributedSampler

from scalebench_api.data import Augmentation
from scalebench_worker.data.cifar import read_cifar10
from scalebench_worker.data.crops import AREA, RATIO, middle_crop, random_crop
from scalebench_worker.data.digits import read_digits
from scalebench_worker.data.idx import read_fashion_mnist, read_idx
from scalebench_worker.torch.data import DataError, DataOptions, DataSpec, Loader, open_data
from scalebench_worker.torch.data.augment import crop_and_flip
from scalebench_worker.torch.data.order import Shard, epoch_order, steps_per_epoch, stream_seed
from scalebench_worker.torch.models import build, training_loss


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors: threads cost more than they bring, above all on shared cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- order -----------------------------------------------------------------------------------------------------


def order(items: int, batch: int, shard: Shard, epoch: int = 0, split: Any = "train") -> list[int]:
    steps = steps_per_epoch(items, batch=batch, split=split, shard=shard)
    spec = DataSpec("any", split, (1,), 2, items, batch, steps)
    return list(epoch_order(spec, shard, epoch).tolist())


@settings(deadline=None)
@given(
    world=st.integers(1, 8), batch=st.integers(1, 7), extra=st.integers(0, 60), seed=st.integers(0, 99),
    epoch=st.integers(0, 9),
)  # fmt: skip
def test_training_order_is_that_of_the_distributed_sampler(
    world: int, batch: int, extra: int, seed: int, epoch: int
) -> None:
    items = world * batch + extra
    for rank in range(world):
        sampler: DistributedSampler[int] = DistributedSampler(
            range(items),  # type: ignore[arg-type]
            num_replicas=world,
            rank=rank,
            shuffle=True,
            seed=seed,
            drop_last=True,
        )
        sampler.set_epoch(epoch)
        expected = list(sampler)
        full = len(expected) // batch * batch
        assert order(items, batch, Shard(rank, world, seed), epoch) == expected[:full]


@settings(deadline=None)
@given(workers=st.sampled_from([1, 2, 3, 4, 6]), extra=st.integers(0, 30), epoch=st.integers(0, 3))
def test_strong_scaling_consumes_the_same_global_batches(workers: int, extra: int, epoch: int) -> None:
    items, global_batch = 48 + extra, 12
    batch = global_batch // workers
    alone = order(items, global_batch, Shard(0, 1, 5), epoch)
    shards = [order(items, batch, Shard(rank, workers, 5), epoch) for rank in range(workers)]
    for step in range(items // global_batch):
        together = {item for shard in shards for item in shard[step * batch : (step + 1) * batch]}
        assert together == set(alone[step * global_batch : (step + 1) * global_batch])


@settings(deadline=None)
@given(items=st.integers(0, 50), world=st.integers(1, 8), batch=st.integers(1, 9))
def test_validation_takes_every_item_once(items: int, world: int, batch: int) -> None:
    shards = [order(items, batch, Shard(rank, world, 0), split="val") for rank in range(world)]
    assert sorted(itertools.chain(*shards)) == list(range(items))
    for rank, shard in enumerate(shards):
        assert steps_per_epoch(items, batch=batch, split="val", shard=Shard(rank, world, 0)) == -(-len(shard) // batch)


def test_epochs_and_seeds_shuffle_anew() -> None:
    orders = [order(40, 10, Shard(0, 1, seed), epoch) for seed, epoch in ((0, 0), (0, 1), (7, 0))]
    assert len({tuple(numbers) for numbers in orders}) == 3
    assert all(sorted(numbers) == list(range(40)) for numbers in orders)


def test_a_set_that_fills_no_batch_is_refused() -> None:
    with pytest.raises(DataError, match="9 items do not fill one batch of 5 on each of 2 workers"):
        order(9, 5, Shard(0, 2, 0))


def test_streams_do_not_collide() -> None:
    seeds = {stream_seed(seed, rank, epoch) for seed in range(5) for rank in range(5) for epoch in range(5)}
    assert len(seeds) == 125
    assert all(0 <= seed < 2**63 for seed in seeds)


# --- synthetic -------------------------------------------------------------------------------------------------


def synthetic(**arguments: Any) -> Loader:
    return open_data("synthetic", **({"batch": 8, "shape": (3, 16, 16), "classes": 10} | arguments))


def test_synthetic_images_are_normal_deviates() -> None:
    loader = synthetic()
    for x, y in loader:
        assert x.shape == (8, 3, 16, 16)
        assert x.dtype == torch.float32
        assert x.mean().item() == pytest.approx(0, abs=0.1)
        assert x.std().item() == pytest.approx(1, abs=0.1)
        assert y.dtype == torch.int64
        assert 0 <= y.min() <= y.max() < 10
    assert len(loader) == 4
    assert (loader.spec.items, loader.spec.samples, loader.spec.samples_per_step) == (32, 32, 8)


def test_synthetic_batches_are_made_once() -> None:
    loader = synthetic(options=DataOptions(pool=3, items=80))
    assert len(loader) == 10
    first = [x.data_ptr() for x, _ in loader]
    assert len(set(first)) == 3
    assert first == [x.data_ptr() for x, _ in loader]
    assert len(synthetic(options=DataOptions(pool=50, items=8)).pool) == 1  # type: ignore[attr-defined]


def test_synthetic_data_depend_on_seed_rank_and_split_alone() -> None:
    def first(**arguments: Any) -> torch.Tensor:
        return next(iter(synthetic(**arguments)))[0]

    reference = first()
    assert torch.equal(first(), reference)
    for other in ({"seed": 1}, {"rank": 1, "world": 2}, {"split": "val"}):
        assert not torch.equal(first(**other), reference)


def test_synthetic_tokens_are_followed_by_the_next_token() -> None:
    loader = synthetic(shape=(6,), classes=50, options=DataOptions(kind="tokens"))
    x, y = next(iter(loader))
    assert x.shape == y.shape == (8, 6)
    assert torch.equal(x[:, 1:], y[:, :-1])
    assert 0 <= x.min() <= x.max() < 50
    assert x.is_contiguous()
    assert y.is_contiguous()
    assert loader.spec.samples_per_step == 8 * 6
    assert loader.spec.samples == 4 * 8 * 6


def test_inputs_come_in_the_asked_form() -> None:
    options = DataOptions(channels_last=True, dtype=torch.bfloat16)
    for loader in (synthetic(options=options), open_data("digits", batch=4, shape=(3, 16, 16), options=options)):
        x, _ = next(iter(loader))
        assert x.dtype == torch.bfloat16
        assert x.is_contiguous(memory_format=torch.channels_last)
    x, _ = next(iter(synthetic(shape=(20,), options=options)))
    assert x.shape == (8, 20)


def test_the_global_random_state_is_not_touched() -> None:
    before = torch.get_rng_state()
    np_before = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    for loader in (synthetic(), open_data("digits", batch=16)):
        for _ in loader:
            pass
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], np_before)  # type: ignore[index]


def test_endless_goes_through_the_epochs() -> None:
    loader = open_data("digits", batch=500)
    assert len(loader) == 2
    stream = loader.endless()
    taken = [next(stream)[1] for _ in range(4)]
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        again = [y for _, y in loader]
        assert torch.equal(torch.stack(again), torch.stack(taken[2 * epoch : 2 * epoch + 2]))
    empty = open_data("digits", batch=1, split="val", rank=399, world=400)
    assert len(empty) == 0
    assert list(empty) == []
    with pytest.raises(DataError, match="digits: no item of the val split is for this worker"):
        next(empty.endless())


def test_a_closed_loader_says_so() -> None:
    for loader in (synthetic(), open_data("digits", batch=16)):
        loader.close()
        with pytest.raises(DataError, match="this loader was closed"):
            iter(loader)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "imagenet"}, "data source 'imagenet' is not known; known are synthetic, digits"),
        ({"source": "digits", "split": "test"}, "digits: split 'test': train or val is wanted"),
        ({"source": "digits", "batch": 0}, "digits: batch 0, rank 0 of 1 workers"),
        ({"source": "digits", "rank": 2, "world": 2}, "rank 2 of 2 workers"),
        ({"source": "digits", "classes": 9}, "digits: classes 9: the set has 10"),
        ({"source": "digits", "shape": (64,)}, "digits: shape [64]: [channels, height, width] is wanted"),
        ({"source": "digits", "batch": 1439}, "1438 items do not fill one batch of 1439 on each of 1 workers"),
        ({"source": "synthetic"}, "synthetic: shape and classes are wanted"),
        (
            {"source": "synthetic", "shape": (3, 4), "classes": 5, "options": DataOptions(kind="tokens")},
            "synthetic: shape [3, 4]: tokens have [length]",
        ),
        (
            {"source": "synthetic", "shape": (3, 4), "classes": 5, "options": DataOptions(pool=0)},
            "synthetic: pool 0: at least 1 batch is wanted",
        ),
        ({"source": "cifar10"}, "cifar10: path: the folder of the data set is wanted"),
        ({"source": "cifar10", "path": "/nowhere"}, "cifar10: path /nowhere: no such folder"),
    ],
)
def test_a_wrong_request_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        open_data(**({"batch": 4} | arguments))
    assert message in str(caught.value)


# --- digits ----------------------------------------------------------------------------------------------------


def test_digits_are_scikit_learns_own_in_a_fixed_split() -> None:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    train, val = read_digits("train"), read_digits("val")
    assert (len(train.labels), len(val.labels)) == (1438, 359)

    def rows(images: Any, labels: Any) -> list[tuple[int, ...]]:
        flat = np.column_stack([np.asarray(images).reshape(len(labels), -1), labels]).astype(int)
        return sorted(tuple(row) for row in flat.tolist())

    together = rows(np.concatenate([train.images, val.images]), np.concatenate([train.labels, val.labels]))
    assert together == rows(bunch.data, bunch.target)
    assert set(val.labels.tolist()) == set(range(10))
    assert train.mean == val.mean  # of the training part for both


def test_digits_are_standardised_and_upsampled() -> None:
    (plain, labels), (upsampled, same_labels) = (
        next(iter(open_data("digits", batch=1438, shape=shape))) for shape in ((1, 8, 8), (3, 32, 32))
    )
    assert plain.mean().item() == pytest.approx(0, abs=1e-4)
    assert plain.std().item() == pytest.approx(1, abs=1e-3)
    assert torch.equal(labels, same_labels)
    assert torch.equal(upsampled[:, 0], upsampled[:, 2])
    expected = F.interpolate(plain, size=(32, 32), mode="bilinear")
    torch.testing.assert_close(upsampled[:, :1], expected)


def test_digits_can_be_learnt() -> None:
    torch.manual_seed(0)
    model = build("mlp", classes=10, input_shape=(1, 8, 8), hidden=(64,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for x, y in itertools.islice(open_data("digits", batch=32).endless(), 44 * 6):
        optimizer.zero_grad()
        torch.autograd.backward(training_loss(model(x), y))
        optimizer.step()
    right = total = 0
    with torch.no_grad():
        for rank in range(3):
            for x, y in open_data("digits", batch=50, split="val", rank=rank, world=3):
                right += int((model(x).argmax(1) == y).sum())
                total += len(y)
    assert total == 359
    assert right / total > 0.95


# --- fashion-mnist ---------------------------------------------------------------------------------------------


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
        (LABELS, idx(np.full(12, 10)), f"{LABELS}: label 10: 0 to 9 is expected"),
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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_zipped_idx_file_is_an_error_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(gzip.compress(idx(np.arange(24).reshape(2, 3, 4))))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    file = tmp_path / "damaged.gz"
    file.write_bytes(bytes(content[:cut] if data.draw(st.booleans()) else content))
    assert_named_or_read(lambda: read_idx(file, dimensions=3).ndim == 3, file)


# --- cifar10 ---------------------------------------------------------------------------------------------------


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
        (None, "test_batch: no such file; cifar-10-batches-py holds data_batch_1 to data_batch_5 and test_batch"),
        (b"", "is not a readable CIFAR-10 batch: EOFError"),
        (b"not a pickle", "is not a readable CIFAR-10 batch"),
        (python2_batch(PIXELS, [1, 2, 3, 4])[:-200], "is not a readable CIFAR-10 batch"),
        (b"\x80\x05\x96" + struct.pack("<q", 1 << 40) + b"abc", "is not a readable CIFAR-10 batch"),
        (b"T\x01\x00", "is not a readable CIFAR-10 batch"),
        (pickle.dumps([1]), "holds a list: a dictionary of data and labels is expected"),
        (pickle.dumps({b"labels": [1]}), "data: an array is expected"),
        (pickle.dumps({b"data": b"abc", b"labels": [1]}), "data: an array is expected"),
        (python3_batch(PIXELS[:, :10], [1] * 4), "data: u1 [4, 10]: bytes [items, 3072] are expected"),
        (python3_batch(PIXELS.astype(np.int64), [1] * 4), "data: i8 [4, 3072]: bytes [items, 3072] are expected"),
        (python2_batch(PIXELS, [1] * 4).replace(b"J\x04\x00", b"J\x05\x00"), "data: 12288 bytes for shape [5, 3072]"),
        (python3_batch(PIXELS, [1, 2, 3]), "3 labels for 4 images"),
        (python2_batch(PIXELS[:0], []), "0 labels for 0 images"),
        (python3_batch(PIXELS, [1, 2, 3, 10]), "labels: a list of numbers from 0 to 9 is expected"),
        (python3_batch(PIXELS, ["a"] * 4), "labels: a list of numbers from 0 to 9 is expected"),  # type: ignore[list-item]
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


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32), height=st.integers(1, 9), width=st.integers(1, 9))
def test_every_augmented_image_is_a_padded_crop_perhaps_mirrored(seed: int, height: int, width: int) -> None:
    random = torch.Generator().manual_seed(seed)
    images = torch.randint(1, 256, (3, 2, height, width), dtype=torch.uint8, generator=random)
    padded = F.pad(images, (4, 4, 4, 4))
    for result, source in zip(crop_and_flip(images, random), padded, strict=True):
        crops = [source[:, top : top + height, left : left + width] for top in range(9) for left in range(9)]
        assert any(torch.equal(result, crop) or torch.equal(result, crop.flip(2)) for crop in crops)


# --- image-folder ----------------------------------------------------------------------------------------------

COLOURS = {"ant": (250, 10, 10), "bee": (10, 250, 10), "cat": (10, 10, 250)}


def write_images(root: Path, *, per_class: int = 4, ending: str = ".png") -> None:
    for split, count in (("train", per_class), ("val", 2)):
        for name, colour in COLOURS.items():
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (40 + 8 * number, 48), colour).save(folder / f"{number}{ending}")


def folder_loader(root: Path, **arguments: Any) -> Loader:
    options = {"batch": 3, "shape": (3, 24, 24), "options": DataOptions(loaders=0)}
    return open_data("image-folder", path=root, **(options | arguments))


@pytest.mark.parametrize("split", ["train", "val"])
def test_images_are_read_by_class_and_normalised(tmp_path: Path, split: str) -> None:
    write_images(tmp_path)
    (tmp_path / "train" / ".cache").mkdir()
    (tmp_path / "train" / "ant" / "notes.txt").write_text("no image")
    loader = folder_loader(tmp_path, split=split)
    assert (loader.spec.items, loader.spec.classes, len(loader)) == ((12, 3, 4) if split == "train" else (6, 3, 2))
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    seen = 0
    for x, y in loader:
        assert x.shape == (3, 3, 24, 24)
        for image, label in zip(x, y.tolist(), strict=True):
            colour = torch.tensor(list(COLOURS.values())[label]) / 255
            expected = ((colour - mean) / deviation).view(3, 1, 1).expand(3, 24, 24)
            torch.testing.assert_close(image, expected, rtol=1e-4, atol=1e-4)
        seen += len(y)
    assert seen == loader.spec.items


def test_grey_images_and_jpegs_are_read(tmp_path: Path) -> None:
    write_images(tmp_path, ending=".JPEG")
    x, _ = next(iter(folder_loader(tmp_path, shape=(1, 16, 20), options=DataOptions(loaders=0, channels_last=True))))
    assert x.shape == (3, 1, 16, 20)
    assert x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.processes
def test_other_processes_decode_the_same_pictures(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    write_images(tmp_path)
    for file in (tmp_path / "train").rglob("*.png"):
        Image.fromarray(random.integers(0, 256, (48, 40, 3), dtype=np.uint8)).save(file)
    here, there = folder_loader(tmp_path), folder_loader(tmp_path, options=DataOptions(loaders=2))
    next(iter(there))  # begun and not finished
    for epoch in (0, 1):
        here.set_epoch(epoch)
        there.set_epoch(epoch)
        for (x, y), (other_x, other_y) in zip(here, there, strict=True):
            assert torch.equal(x, other_x)
            assert torch.equal(y, other_y)
    (tmp_path / "train" / "bee" / "1.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"^\S*train/bee/1.png: cannot be decoded"):
        list(there)
    there.close()
    here.close()
    with pytest.raises(DataError, match="image-folder: this loader was closed"):
        iter(there)


@pytest.mark.parametrize("damage", [b"", b"no picture", "cut"])
def test_a_damaged_picture_is_named(tmp_path: Path, damage: bytes | str) -> None:
    write_images(tmp_path, ending=".jpg")
    file = tmp_path / "val" / "cat" / "1.jpg"
    file.write_bytes(file.read_bytes()[:-40] if isinstance(damage, str) else damage)
    with pytest.raises(DataError) as caught:
        list(folder_loader(tmp_path, split="val"))
    assert str(caught.value).startswith(f"{file}: cannot be decoded")


def test_a_wrong_folder_is_named(tmp_path: Path) -> None:
    def message(**arguments: Any) -> str:
        with pytest.raises(DataError) as caught:
            folder_loader(tmp_path, **arguments)
        return str(caught.value)

    assert f"{tmp_path}/train: no such folder; image-folder reads {tmp_path}/{{train,val}}/<class>" in message()
    (tmp_path / "train").mkdir()
    assert message() == f"{tmp_path}/train: holds no class folders"
    (tmp_path / "train" / "ant").mkdir()
    assert f"{tmp_path}/train/ant: holds no image (.jpg" in message()
    Image.new("RGB", (8, 8)).save(tmp_path / "train" / "ant" / "0.png")
    assert message(split="val").startswith(f"{tmp_path}/val: no such folder")
    (tmp_path / "val" / "dog").mkdir(parents=True)
    assert message(split="val") == f"{tmp_path}/val/dog: {tmp_path}/train has no class of that name"
    assert "1 items do not fill one batch of 3" in message()
    assert "shape [2, 8, 8]: [1 or 3, height, width] is wanted" in message(shape=(2, 8, 8))
    write_images(tmp_path / "all")
    with pytest.raises(DataError, match="train: classes 2: there are 3 class folders"):
        folder_loader(tmp_path / "all", classes=2)
    assert folder_loader(tmp_path / "all", classes=1000).spec.classes == 1000


SIZES = st.tuples(st.integers(1, 5000), st.integers(1, 5000))


@settings(deadline=None)
@given(size=SIZES, seed=st.integers(0, 2**32))
def test_random_crops_lie_inside_and_keep_to_their_limits(size: tuple[int, int], seed: int) -> None:
    width, height = size
    left, top, right, bottom = random_crop(size, np.random.default_rng(seed))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    if min(size) > 100:
        assert (right - left) * (bottom - top) <= width * height * AREA[1]
        if max(size) / min(size) < RATIO[1]:
            assert (right - left) * (bottom - top) >= 0.9 * width * height * AREA[0]
            assert 0.95 * RATIO[0] <= (right - left) / (bottom - top) <= 1.05 * RATIO[1]


@settings(deadline=None)
@given(size=SIZES, wanted=st.tuples(st.integers(1, 500), st.integers(1, 500)))
def test_middle_crops_are_centred_and_keep_the_proportions(size: tuple[int, int], wanted: tuple[int, int]) -> None:
    left, top, right, bottom = middle_crop(size, wanted)
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]
    assert left + right == pytest.approx(size[0])
    assert top + bottom == pytest.approx(size[1])
    assert (right - left) / (bottom - top) == pytest.approx(wanted[0] / wanted[1], rel=1e-6)


def test_the_middle_of_a_photograph_is_what_torchvision_takes() -> None:
    """Shorter side to 256, then the middle 224: the middle 7/8 of the shorter side."""
    assert middle_crop((500, 400), (224, 224)) == (75.0, 25.0, 425.0, 375.0)


KILLED = """
import sys, time
from scalebench_worker.torch.data import DataOptions, open_data
if __name__ == "__main__":
    options = DataOptions(loaders=2)
    stream = open_data("image-folder", path=sys.argv[1], batch=3, shape=(3, 24, 24), options=options).endless()
    next(stream)
    print("running", flush=True)
    time.sleep(60)
"""


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [number for child in children for number in (int(child), *descendants(int(child)))]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.processes
def test_a_killed_worker_leaves_no_decoding_process(tmp_path: Path) -> None:
    write_images(tmp_path)
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, script, tmp_path], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        started = descendants(process.pid)
        assert len(started) >= 3  # the fork server and two decoders
        process.kill()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in started if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
