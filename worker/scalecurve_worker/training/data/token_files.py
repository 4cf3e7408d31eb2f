"""Files of packed token numbers, as tools for language models write them.

- ``.bin`` beside ``.idx``: Megatron-LM's indexed data set; the index has the type and the lengths of its documents.
- ``.bin`` with a header of 256 32-bit integers: llm.c's and modded-nanogpt's.
- ``.bin`` without one: nanoGPT's, 16 bits a token, or 32 where the vocabulary has more than 65,536 entries.
- ``.parquet``: a column of integers, or of lists of them.

Documents follow one another without a gap, as their tools packed them.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.training.data.images import DataError, FolderSplit

SUFFIXES = (".bin", ".parquet")
_SPLITS: dict[FolderSplit, tuple[str, ...]] = {
    "train": ("train",),
    "val": ("val", "valid", "validation"),
    "test": ("test",),
}
_MEGATRON = b"MMIDIDX\x00\x00"
_MEGATRON_TYPES = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 8: "u2"}
_LLMC = {20240520: "u2", 20240801: "u4"}  # the first integer of the header -> type of the tokens
_LLMC_HEADER = 256 * 4


@dataclass(frozen=True)
class Tokens:
    """Token numbers of one file: ``held`` in memory, or ``count`` of a type from ``offset`` bytes on."""

    path: Path
    count: int
    dtype: str = "u2"
    offset: int = 0
    held: NDArray[np.generic] | None = None

    def take(self, starts: Sequence[int], length: int) -> NDArray[np.int64]:
        """Take ``length`` tokens from each start on: (starts, length)."""
        source = self.held
        if source is None:
            # Mapped anew each time, as in nanoGPT: a map that lasts counts every page that it ever read.
            source = np.memmap(self.path, dtype=f"<{self.dtype}", mode="r", offset=self.offset, shape=(self.count,))
        return np.stack([source[start : start + length] for start in starts]).astype(np.int64)


def open_tokens(path: Path, split: FolderSplit, *, vocabulary: int, column: str | None = None) -> list[Tokens]:
    """Open every file of a split: the file itself, or those of a folder that have the split's name in theirs.

    Raises:
        DataError: no such file, or one that is damaged or not of token numbers.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and _is_of(file, split))
        if not files:
            names = " or ".join(f"{split}{suffix}" for suffix in SUFFIXES)
            raise DataError(f"tokens: {path}: no file of the {split} split, such as {names}")
    elif not path.exists():
        raise DataError(f"tokens: {path}: no such file or folder")
    elif path.suffix not in SUFFIXES:
        raise DataError(f"tokens: {path}: expected a file {' or '.join(SUFFIXES)}, or a folder of such")
    elif split != "train":
        raise DataError(f"tokens: {path}: one file has no {split} split; expected a folder with train.bin and val.bin")
    else:
        files = [path]
    try:
        return [_parquet(file, column) if file.suffix == ".parquet" else _binary(file, vocabulary) for file in files]
    except OSError as error:
        raise DataError(f"tokens: {path}: {error.strerror or error}") from error


def _is_of(file: Path, split: FolderSplit) -> bool:
    return not set(re.split(r"[-_.]", file.stem)).isdisjoint(_SPLITS[split])


def _binary(path: Path, vocabulary: int) -> Tokens:
    size = path.stat().st_size
    if (index := path.with_suffix(".idx")).exists():
        return _read_index(path, size, index)
    with path.open("rb") as file:
        magic, _, count = struct.unpack("<3i", file.read(12).ljust(12, b"\0"))
    if magic in _LLMC:
        return _check_size(Tokens(path, count, _LLMC[magic], _LLMC_HEADER), size, "its header")
    dtype = "u2" if vocabulary <= 1 << 16 else "u4"
    tokens = Tokens(path, size // int(dtype[1]), dtype)
    return _check_size(tokens, size, f"a vocabulary of {vocabulary}")


def _read_index(path: Path, size: int, index: Path) -> Tokens:
    """Megatron-LM's: magic, version, code of the type, sequences, documents; then each sequence's length."""
    data = index.read_bytes()
    if not data.startswith(_MEGATRON) or len(data) < 34:
        raise DataError(f"tokens: {index}: not an index of Megatron-LM")
    code, sequences = data[17], int.from_bytes(data[18:26], "little")
    if code not in _MEGATRON_TYPES:
        raise DataError(
            f"tokens: {index}: type {code} is not of integers; expected {', '.join(map(str, _MEGATRON_TYPES))}"
        )
    lengths = np.frombuffer(data[34 : 34 + 4 * sequences], dtype="<i4")
    if len(lengths) != sequences:
        raise DataError(f"tokens: {index}: cut off: {len(lengths)} of {sequences} sequences")
    return _check_size(Tokens(path, int(lengths.sum(dtype=np.int64)), _MEGATRON_TYPES[code]), size, index.name)


def _check_size(tokens: Tokens, size: int, source: str) -> Tokens:
    """The same, if the file has as many bytes as it should."""
    expected = tokens.offset + tokens.count * int(tokens.dtype[1])
    if size != expected:
        width = int(tokens.dtype[1])
        raise DataError(
            f"tokens: {tokens.path}: {size} bytes, but {expected} by {source}: {tokens.count} tokens of {width} bytes"
        )
    return tokens


def _parquet(path: Path, column: str | None) -> Tokens:
    """The column's numbers, in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        name = _column(path, schema, column)
        array = pq.read_table(path, columns=[name]).column(0).combine_chunks()
    except pa.ArrowException as error:
        raise DataError(f"tokens: {path}: {str(error).splitlines()[0]}") from error
    if _is_list(array.type):
        array = array.flatten()
    if array.null_count:
        raise DataError(f"tokens: {path}: column {name}: {array.null_count} numbers are missing")
    held = array.to_numpy(zero_copy_only=False)
    if held.size and int(held.max()) < 1 << 31:
        held = held.astype(np.int32)
    return Tokens(path, held.size, held=held)


def _column(path: Path, schema: Any, column: str | None) -> str:
    numbers = list(_integer_columns(schema))
    if column is not None and column in numbers:
        return column
    names = ", ".join(numbers) or "none"
    if column is not None:
        raise DataError(f"tokens: {path}: data.column: {column} is not a column of integers; such are: {names}")
    if len(numbers) != 1:
        raise DataError(f"tokens: {path}: data.column is required; columns of integers: {names}")
    return numbers[0]


def _integer_columns(schema: Any) -> Iterator[str]:
    import pyarrow as pa

    for field in schema:
        kind = field.type.value_type if _is_list(field.type) else field.type
        if pa.types.is_integer(kind):
            yield str(field.name)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
