"""Logs of any size, read piece by piece: what is kept is bounded, whatever is printed."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.record.envelope import EnvelopeError, digest
from scalecurve_api.record.log_lines import MARK, LogReader, LogTooLargeError, RecordTooLargeError, frame, unframe

MIB = 1 << 20
PAYLOAD = random.Random(1).randbytes(200_000)
LOG = "\n".join(["step 1", *frame(PAYLOAD), "bye", ""]).encode()


def read(pieces: Iterable[bytes], **limits: int) -> bytes:
    reader = LogReader(**limits)
    for piece in pieces:
        reader.feed(piece)
    return reader.payload()


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 4096, 65_536, len(LOG)])
def test_pieces_may_be_cut_anywhere(size: int) -> None:
    assert read(cut(LOG, size)) == PAYLOAD
    assert read(cut(LOG.rstrip(b"\n").removesuffix(b"\nbye"), size)) == PAYLOAD, "without a newline at its end"


@settings(max_examples=60)
@given(st.binary(max_size=9000), st.lists(st.text(max_size=20), max_size=9), st.integers(1, 5000))
def test_as_it_is_read_in_lines(payload: bytes, noise: list[str], size: int) -> None:
    lines = [*noise, *frame(payload), *noise]
    text = "\n".join(line.replace("\n", " ") for line in lines)
    assert read(cut(text.encode(), size)) == payload == unframe(lines)


def flood(kind: str) -> Iterator[bytes]:
    """20 MiB that a pod printed."""
    part = f"{MARK} {'0' * 12} 1 {'A' * 4000}\n"
    begin = "".join(
        f"{MARK} begin parts={parts} bytes={size} sha256={number:064x}\n"
        for number, (parts, size) in enumerate([(333, 10**6), (10**9, 10**6), (1, 10**12), (10**9, 10**12)] * 40)
    )
    tiny = "".join(f"{MARK} {'0' * 12} {number} QQ==\n" for number in range(2000))
    texts = {
        "short lines": "x\n" * 32_768,
        "no newline": "x" * 65_536,
        "marks": f"{MARK} " * 3600,
        "marks in lines": f"{MARK}\n" * 3600,
        "beginnings": begin,
        "parts": f"{MARK} begin parts=333 bytes=999999 sha256={0:064x}\n" + part * 20,
        "tiny parts": f"{MARK} begin parts=1900 bytes=999999 sha256={0:064x}\n" + tiny,
        "zeros": "\0" * 65_536,
    }
    data = texts[kind].encode()
    return (data for _ in range(20 * MIB // len(data)))


@pytest.mark.parametrize("kind", ["short lines", "no newline", "marks", "zeros"])
def test_a_flood_costs_no_memory_and_what_is_behind_it_is_read(kind: str) -> None:
    reader = LogReader(most_bytes=MIB)
    tracemalloc.start()
    for piece in flood(kind):
        reader.feed(piece)
    reader.feed(b"\n" + LOG)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MIB
    assert reader.payload() == PAYLOAD


@pytest.mark.parametrize("kind", ["marks in lines", "beginnings", "parts", "tiny parts"])
def test_a_flood_of_lines_of_records_is_given_up(kind: str) -> None:
    tracemalloc.start()
    with pytest.raises((LogTooLargeError, RecordTooLargeError)):
        read(flood(kind), most_bytes=MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MIB


def test_a_record_that_is_too_large_is_told_apart() -> None:
    with pytest.raises(RecordTooLargeError, match="the record has 200000 bytes, at most 199999 are read"):
        read([LOG], most_bytes=199_999)
    assert read([LOG], most_bytes=200_000) == PAYLOAD
    small = b"small"
    with pytest.raises(RecordTooLargeError):
        read([LOG, "\n".join([*frame(small), ""]).encode()], most_bytes=1000)
    with pytest.raises(RecordTooLargeError):
        read(["\n".join([*frame(small), ""]).encode(), LOG], most_bytes=1000)


def test_more_parts_than_bytes_are_refused() -> None:
    begin = f"{MARK} begin parts=1000000 bytes=1000 sha256={digest(b'')}\n"
    with pytest.raises(EnvelopeError, match="1000000 parts of 1000 bytes"):
        read([begin.encode()])


def test_a_log_that_does_not_end_is_given_up() -> None:
    with pytest.raises(LogTooLargeError, match="more than 1 MiB"):
        read((b"x\n" * 1000 for _ in iter(int, 1)), most_log_bytes=MIB)
