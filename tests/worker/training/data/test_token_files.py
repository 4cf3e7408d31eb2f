"""Packed tokens as nanoGPT, llm.c, Megatron-LM and Parquet writers leave them, whole and damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.training.data.images import DataError
from scalecurve_worker.training.data.token_files import open_tokens

NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6]


def raw(path: Path, numbers: list[int], dtype: str = "<u2") -> Path:
    path.write_bytes(np.array(numbers, dtype=dtype).tobytes())
    return path


def llmc(path: Path, numbers: list[int], magic: int = 20240520, dtype: str = "<u2") -> Path:
    head = np.zeros(256, dtype="<i4")
    head[:3] = magic, 1, len(numbers)
    path.write_bytes(head.tobytes() + np.array(numbers, dtype=dtype).tobytes())
    return path


def megatron(path: Path, documents: list[list[int]], code: int = 4, dtype: str = "<i4") -> Path:
    """As ``IndexedDatasetBuilder`` writes it."""
    lengths = [len(document) for document in documents]
    raw(path, [number for document in documents for number in document], dtype)
    pointers = np.cumsum([0, *lengths[:-1]]) * np.dtype(dtype).itemsize
    index = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, code) + struct.pack("<QQ", len(documents), len(documents) + 1)
    index += np.array(lengths, "<i4").tobytes() + pointers.astype("<i8").tobytes()
    path.with_suffix(".idx").write_bytes(index + np.arange(len(documents) + 1, dtype="<i8").tobytes())
    return path


def parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def numbers_of(path: Path, vocabulary: int = 50_257, column: str | None = None) -> list[int]:
    (tokens,) = open_tokens(path, "train", vocabulary=vocabulary, column=column)
    return tokens.take([0], tokens.count)[0].tolist()


def test_every_format_gives_its_numbers(tmp_path: Path) -> None:
    assert numbers_of(raw(tmp_path / "a.bin", NUMBERS)) == NUMBERS
    assert numbers_of(raw(tmp_path / "b.bin", [70_000, 2], "<u4"), 128_256) == [70_000, 2]
    assert numbers_of(llmc(tmp_path / "c.bin", NUMBERS)) == NUMBERS
    assert numbers_of(llmc(tmp_path / "d.bin", [100_000], 20240801, "<u4")) == [100_000]
    assert numbers_of(megatron(tmp_path / "e.bin", [NUMBERS[:3], NUMBERS[3:]])) == NUMBERS
    assert numbers_of(megatron(tmp_path / "f.bin", [NUMBERS], 8, "<u2")) == NUMBERS
    assert numbers_of(parquet(tmp_path / "g.parquet", text=["a", "b"], input_ids=[[3, 1], [4]])) == [3, 1, 4]
    assert numbers_of(parquet(tmp_path / "h.parquet", ids=[7, 8, 9], other=[1, 1, 1]), column="ids") == [7, 8, 9]


@given(st.lists(st.integers(0, 65_535), min_size=1, max_size=50), st.data())
def test_any_place_of_a_file(tmp_path_factory: pytest.TempPathFactory, numbers: list[int], data: st.DataObject) -> None:
    path = raw(tmp_path_factory.mktemp("raw") / "x.bin", numbers)
    (tokens,) = open_tokens(path, "train", vocabulary=65_536)
    length = data.draw(st.integers(1, len(numbers)))
    starts = data.draw(st.lists(st.integers(0, len(numbers) - length), min_size=1, max_size=4))
    assert tokens.take(starts, length).tolist() == [numbers[start : start + length] for start in starts]


def test_a_folder_has_its_splits_by_name(tmp_path: Path) -> None:
    raw(tmp_path / "fineweb_train_000001.bin", [1, 2])
    raw(tmp_path / "fineweb_train_000002.bin", [3])
    parquet(tmp_path / "validation-00000-of-00001.parquet", tokens=[[4, 5]])
    (tmp_path / "train.txt").write_text("no tokens")
    assert [each.count for each in open_tokens(tmp_path, "train", vocabulary=10)] == [2, 1]
    assert [each.count for each in open_tokens(tmp_path, "val", vocabulary=10)] == [2]


def test_what_is_wrong_is_named_with_its_file(tmp_path: Path) -> None:
    def refused(path: Path, split: str = "train", **more: str) -> str:
        with pytest.raises(DataError) as caught:
            open_tokens(path, split, vocabulary=50_257, **more)  # type: ignore[arg-type]
        (line,) = str(caught.value).splitlines()
        assert str(path.parent) in line
        return line

    one = raw(tmp_path / "train.bin", NUMBERS)
    assert refused(tmp_path / "absent.bin").endswith("no such file or folder")
    assert "expected a file .bin or .parquet" in refused(_written(tmp_path / "a.txt"))
    assert "one file has no val split" in refused(one, "val")
    assert "no file of the val split, such as val.bin or val.parquet" in refused(tmp_path, "val")
    odd = tmp_path / "odd.bin"
    odd.write_bytes(b"123")
    assert "3 bytes, but 2 by a vocabulary of 50257: 1 tokens of 2 bytes" in refused(odd)
    short = llmc(tmp_path / "short.bin", NUMBERS)
    short.write_bytes(short.read_bytes()[:-2])
    assert "1038 bytes, but 1040 by its header" in refused(short)
    cut = megatron(tmp_path / "cut.bin", [NUMBERS])
    cut.write_bytes(cut.read_bytes()[:-4])
    assert "28 bytes, but 32 by cut.idx" in refused(cut)
    assert "type 6 is not of integers; expected 1, 2, 3, 4, 5, 8" in refused(megatron(tmp_path / "f.bin", [[1]], 6))
    few = megatron(tmp_path / "few.bin", [[1], [2], [3]])
    few.with_suffix(".idx").write_bytes(few.with_suffix(".idx").read_bytes()[:38])
    assert "cut off: 1 of 3 sequences" in refused(few)
    few.with_suffix(".idx").write_bytes(b"something else")
    assert "not an index of Megatron-LM" in refused(few)
    two = parquet(tmp_path / "two.parquet", a=[1], b=[2], text=["x"])
    assert "data.column is required; columns of integers: a, b" in refused(two)
    assert "data.column: text is not a column of integers; such are: a, b" in refused(two, column="text")
    assert "columns of integers: none" in refused(parquet(tmp_path / "none.parquet", text=["x"]))
    assert "1 numbers are missing" in refused(parquet(tmp_path / "null.parquet", ids=[1, None]))
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but not really PAR1")
    assert "broken.parquet" in refused(broken)


def _written(path: Path) -> Path:
    path.write_text("words")
    return path
