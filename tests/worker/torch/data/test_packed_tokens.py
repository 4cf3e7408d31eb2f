"""Batches of packed tokens: every sequence once over all workers, and the same global batch for any number of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from scalecurve_worker.torch.data import DataError, DataOptions, Loader, open_data

LENGTH, VOCABULARY = 4, 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files for training, of 6 and 3 sequences, and a Parquet one to validate with, of 2."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.arange(6 * LENGTH + 1, dtype="<u2").tofile(tmp_path / "train-1.bin")
    np.arange(50, 50 + 3 * LENGTH + 3, dtype="<u2").tofile(tmp_path / "train-2.bin")
    pq.write_table(pa.table({"tokens": [list(range(2 * LENGTH + 1))]}), tmp_path / "val.parquet")
    return tmp_path


def opened(
    path: Path, *, batch: int = 3, rank: int = 0, world: int = 1, split: str = "train", **more: object
) -> Loader:
    options = DataOptions(kind="tokens", **more)  # type: ignore[arg-type]
    return open_data(
        "tokens", batch=batch, path=path, shape=[LENGTH], classes=VOCABULARY, seed=5, rank=rank, world=world,
        split=split, options=options,  # type: ignore[arg-type]
    )  # fmt: skip


def starts(loader: Loader) -> list[list[int]]:
    """The first token of each sequence of each batch; the others and the targets follow it here."""
    found = []
    for inputs, targets in loader:
        assert torch.equal(inputs, inputs[:, :1] + torch.arange(LENGTH))
        assert torch.equal(targets, inputs + 1)
        found.append(inputs[:, 0].tolist())
    return found


def test_an_epoch_has_every_sequence_once(folder: Path) -> None:
    loader = opened(folder)
    assert (loader.spec.items, loader.spec.samples, loader.spec.samples_per_step) == (9, 36, 12)
    once = [start for batch in starts(loader) for start in batch]
    assert sorted(once) == [0, 4, 8, 12, 16, 20, 50, 54, 58]
    loader.set_epoch(1)
    again = [start for batch in starts(loader) for start in batch]
    assert again != once
    assert sorted(again) == sorted(once)
    assert starts(opened(folder, split="val")) == [[0, 4]]
    loader.close()


def test_a_step_has_the_same_global_batch_for_any_number_of_workers(folder: Path) -> None:
    alone = starts(opened(folder, batch=4))
    pair = [starts(opened(folder, batch=2, rank=rank, world=2)) for rank in range(2)]
    assert [sorted(a + b) for a, b in zip(*pair, strict=True)] == [sorted(batch) for batch in alone]


def reading_ahead(folder: Path) -> Iterator[Loader]:
    for split in ("train", "val"):
        loader = opened(folder, batch=2, split=split, loaders=1)
        yield loader
        loader.close()


@pytest.mark.processes
def test_a_process_that_reads_ahead_gives_the_same(folder: Path) -> None:
    ahead = [starts(loader) for loader in reading_ahead(folder)]
    assert ahead == [starts(opened(folder, batch=2, split=split)) for split in ("train", "val")]


def test_a_token_beyond_the_vocabulary_is_named(folder: Path) -> None:
    np.array([0, 1, 2, 3, 100], dtype="<u2").tofile(folder / "train-3.bin")
    with pytest.raises(DataError, match=r"train-3.bin: token 100, but the vocabulary has 100 entries; data.classes"):
        list(opened(folder, batch=10))


def test_too_few_tokens(tmp_path: Path) -> None:
    np.zeros(LENGTH, dtype="<u2").tofile(tmp_path / "train.bin")
    with pytest.raises(DataError, match="too few for one sequence of 4 and its next tokens"):
        opened(tmp_path)
