import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.record.journal import (
    HEADER,
    MAGIC,
    ROW,
    JournalError,
    StepRow,
    body,
    read_rank,
)
from tests.api.rank_records import journal_of, row
from tests.step_journal import read_rows

INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
rows = st.lists(
    st.builds(StepRow, INT32, INT32, INT64, INT64, INT32, st.floats(width=32)),
    max_size=20,
)


def same(one: StepRow, other: StepRow) -> bool:
    return one[:-1] == other[:-1] and (one.loss == other.loss or (math.isnan(one.loss) and math.isnan(other.loss)))


def unpacked(data: bytes) -> list[StepRow]:
    return [StepRow(*fields) for fields in ROW.iter_unpack(body(data))]


@given(st.integers(0, (1 << 32) - 1), rows)
def test_what_is_written_is_read(rank: int, written: list[StepRow]) -> None:
    data = journal_of(rank, written)
    assert read_rank(data, "here") == rank
    assert len(data) == 32 * (1 + len(written))
    assert all(map(same, unpacked(data), written))


@given(rows, st.integers(0, 2000))
def test_a_journal_cut_anywhere_keeps_its_whole_rows(written: list[StepRow], cut: int) -> None:
    data = journal_of(0, written)[:cut]
    whole = max(0, len(data) - HEADER.size) // ROW.size
    kept = unpacked(data)
    assert len(kept) == whole
    assert all(map(same, kept, written))


@pytest.mark.parametrize("data", [b"", b"SBSTEPS1", b"x" * 31])
def test_a_journal_without_a_whole_header_is_none(data: bytes) -> None:
    assert unpacked(data) == []
    with pytest.raises(JournalError, match=f"rank-0.steps: {len(data)} bytes, too short"):
        read_rank(data, "rank-0.steps")


@pytest.mark.parametrize("header", [b"PAR1" + b"\0" * 28, HEADER.pack(MAGIC, 0, 40), b"\0" * 32])
def test_a_foreign_file_is_named(header: bytes) -> None:
    with pytest.raises(JournalError, match=r"rank-0\.steps: not a step journal"):
        read_rank(header, "rank-0.steps")


def test_reading_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.steps"
    path.write_bytes(journal_of(0, [row(0), row(1, window=0, loss=2.5)]) + b"torn")
    read = list(read_rows(path))
    assert [each.step for each in read] == [0, 1]
    assert math.isnan(read[0].loss)
    assert read[1] == row(1, window=0, loss=2.5)
    path.write_bytes(b"not a journal at all, and long enough")
    with pytest.raises(JournalError, match=str(path)):
        list(read_rows(path))
