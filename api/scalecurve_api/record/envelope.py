"""Everything that the ranks of one attempt left, as one payload; ``log_lines`` makes lines of a log of it.

The payload is a compressed head (JSON lines: what it holds, then one rank record a line, each but the first as its
differences from the first) and behind it the step journals, each compressed by itself. Judging needs only the head.
A journal's rows are stored byte plane by byte plane: bytes that hardly change lie together and vanish.
"""

import hashlib
import io
import json
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError
from pydantic_core import from_json

from scalecurve_api.model import MOST_UNKNOWN, Model, Natural, canonical_json, understood
from scalecurve_api.record import journal
from scalecurve_api.record.extremes import extremes
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.release import release
from scalecurve_api.text import count as counted

_MAGIC = b"SBENVEL1"
_OPENING = struct.Struct("<8sI")
_HEAD_LIMIT = 128 << 20
_JOURNALS_LIMIT = 1 << 30
"""Of all journals before they are compressed: a payload of a thousandth of that must not fill a reader's memory"""
_FIRST_BYTES, _RANK_BYTES = 8 << 20, 64 << 10
"""Of a head: for its first line and what only rank 0 records, and for every rank; some 2 kB are usual"""
_ROW = journal.ROW.size
_FEW = 5
_NAME = 100
_MOST_JOURNALS = 65_536 + 2  # of every rank, or two in their place
Size = Annotated[int, Field(strict=True, ge=0, le=1 << 40)]
_MAX_DEPTH = 32
_INT64 = 1 << 63


class EnvelopeError(ValueError):
    """Not a payload, or a log without a complete one."""


class _Head(Model):
    """The first line: what follows it."""

    trial: Annotated[str, StringConstraints(max_length=253)]
    attempt: Natural
    left_out: Annotated[list[Annotated[str, StringConstraints(max_length=4096)]], Field(max_length=64)]
    journals: Annotated[list[tuple[Annotated[int, Field(strict=True)], Size, Size]], Field(max_length=_MOST_JOURNALS)]
    ranks: Natural


class _Line(Model):
    """A rank's line; all but the first hold differences."""

    rank: Natural
    record: dict[str, Any]


@dataclass(frozen=True)
class Envelope:
    """What the ranks of one attempt left; ``journals`` may hold ``SLOWEST`` and ``MEDIAN`` in place of the ranks."""

    trial: str
    attempt: int
    ranks: Mapping[int, RankRecord]
    journals: Mapping[int, bytes]
    left_out: tuple[str, ...] = ()


def seal(
    trial: str, attempt: int, ranks: Mapping[int, RankRecord], journals: Mapping[int, bytes], budget: int
) -> bytes:
    """The payload, at most ``budget`` bytes of it; the same bytes for the same contents.

    Journals go when they do not fit, all of them, for a part of the ranks would say wrong things of the slowest. The
    slowest and the median rank of every step then stand in their place. Rank records are never dropped, for
    without them nothing can be judged: a budget below them is exceeded.

    Raises:
        JournalError: when a journal is foreign and does not fit.
    """
    records = [canonical_json(line) for line in _differences(ranks)]

    def head(packed: Mapping[int, tuple[int, bytes]], left_out: tuple[str, ...]) -> bytes:
        sizes = [[key, size, len(data)] for key, (size, data) in packed.items()]
        first = {"trial": trial, "attempt": attempt, "leftOut": list(left_out), "journals": sizes, "ranks": len(ranks)}
        return zlib.compress("\n".join([canonical_json(first), *records]).encode(), 6)

    bare = len(head({}, ())) + _OPENING.size
    small = sum(map(len, journals.values())) <= _JOURNALS_LIMIT
    packed = _pack(journals, budget - bare) if small else None
    if packed is not None and len(payload := _join(head(packed, ()), packed)) <= budget:
        return payload
    lost = f"step journals of {_spans(journals)} ({sum(map(len, journals.values())) / 1e6:.1f} MB)"
    kept = _pack(extremes(journals), budget - bare)
    if kept:
        note = (f"{lost}; the slowest and the median rank of every step are kept",)
        if len(payload := _join(head(kept, note), kept)) <= budget:
            return payload
    return _join(head({}, (lost,)), {})


def unseal(payload: bytes) -> Envelope:
    """The contents of a payload.

    Raises:
        EnvelopeError: when it is not one, or is damaged.
    """
    envelope, sizes, at = _open(payload)
    journals: dict[int, bytes] = {}
    for key, size, length in sizes:
        data = _inflate(payload[at : at + length], size, f"journal of rank {key}")
        if len(data) != size:
            raise EnvelopeError(f"journal of rank {key}: {len(data)} bytes, {size} were sealed")
        journals[key] = _unshuffle(data)
        at += length
    if at != len(payload):
        raise EnvelopeError(f"payload: {len(payload)} bytes, its head announces {at}")
    return Envelope(envelope.trial, envelope.attempt, envelope.ranks, journals, envelope.left_out)


def unseal_ranks(payload: bytes, most_ranks: int | None = None) -> Envelope:
    """As ``unseal`` without the journals, of which ``payload`` may lack any part: all that judging needs.

    Raises:
        EnvelopeError: when the payload is not one, or its head is damaged.
    """
    return _open(payload, most_ranks)[0]


def head_of(payload: bytes) -> bytes:
    """The part of a payload that ``unseal_ranks`` reads."""
    if len(payload) < _OPENING.size:
        return payload
    return payload[: _OPENING.size + _OPENING.unpack_from(payload)[1]]


def digest(payload: bytes) -> str:
    """sha256 of a payload, in hex."""
    return hashlib.sha256(payload).hexdigest()


def _differences(ranks: Mapping[int, RankRecord]) -> Iterator[dict[str, Any]]:
    first: dict[str, Any] | None = None
    for rank in sorted(ranks):
        wire = json.loads(ranks[rank].model_dump_json(by_alias=True))
        first = first or wire
        names = wire if wire is first else [name for name in {**first, **wire} if wire.get(name) != first.get(name)]
        own = {name: wire.get(name) for name in names}
        yield {"rank": rank, "record": own}


def _open(payload: bytes, most_ranks: int | None = None) -> tuple[Envelope, list[tuple[int, int, int]], int]:
    if len(payload) < _OPENING.size or payload[: len(_MAGIC)] != _MAGIC:
        raise EnvelopeError(f"payload: {len(payload)} bytes, not a record (begins with {payload[:8]!r})")
    end = _OPENING.size + _OPENING.unpack_from(payload)[1]
    compressed = payload[_OPENING.size : end]
    try:
        head, _ = understood(_Head, _foreign_json(_first_line(compressed)))
        if most_ranks is not None and head.ranks > most_ranks:
            raise EnvelopeError(f"head: {counted(head.ranks, 'rank record')}, at most {most_ranks} are read")
        if sum(size for _, size, _ in head.journals) > _JOURNALS_LIMIT:
            raise EnvelopeError(f"head: journals of more than {_JOURNALS_LIMIT >> 20} MiB")
        # Counted before anything is split: a line of its own costs fifty times what a newline does.
        text = _inflate(compressed, min(_HEAD_LIMIT, _FIRST_BYTES + head.ranks * _RANK_BYTES), "head")
        if head.ranks != (count := text.count(b"\n")):
            raise EnvelopeError(f"head: {counted(count, 'rank record')}, {head.ranks} were sealed")
        newer: dict[str, None] = {}
        lines = io.BytesIO(text)
        lines.readline()
        ranks = dict(_records(lines, newer))
        left_out = (*head.left_out, *_unknown_field_lines(list(newer)))
        envelope = Envelope(head.trial, head.attempt, ranks, {}, left_out)
    except ValidationError as error:
        part = "head" if error.title == _Head.__name__ else "rank record"
        if (count := error.error_count()) > MOST_UNKNOWN:
            raise EnvelopeError(f"{part}: {count} fields are unknown or wrong") from None
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))[:_NAME]
        raise EnvelopeError(f"{part}: {place}: {problem['msg']}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, EnvelopeError):
            raise
        raise EnvelopeError(f"head: not a record's ({type(error).__name__}: {error})") from error
    return envelope, head.journals, end


def _first_line(compressed: bytes) -> bytes:
    try:
        begin = zlib.decompressobj().decompress(compressed, _FIRST_BYTES)
    except zlib.error as error:
        raise EnvelopeError(f"head: damaged ({error})") from None
    first, newline, _ = begin.partition(b"\n")
    return first if newline else _inflate(compressed, min(_HEAD_LIMIT, _FIRST_BYTES), "head")


def _unknown_field_lines(newer: Sequence[str]) -> Iterator[str]:
    if newer:
        more = f" and {len(newer) - _FEW} more" if len(newer) > _FEW else ""
        names = f"{', '.join(name[:_NAME] for name in newer[:_FEW])}{more}"
        yield f"rank records: {names}, which scalecurve {release()} does not know"


def _records(lines: Iterable[bytes], newer: dict[str, None]) -> Iterator[tuple[int, RankRecord]]:
    """Ranks and their records; names of fields that this version does not know come into ``newer``."""
    first: RankRecord | None = None
    fields: dict[str, Any] = {}  # of the first record, as it was written
    for line in lines:
        entry, _ = understood(_Line, _foreign_json(line))
        own = entry.record
        if first is None:
            fields = own
            first, unknown = understood(RankRecord, own)
            newer.update(dict.fromkeys(unknown))
            yield entry.rank, first
            continue
        # What is equal is read and held once: thousands of ranks differ in little.
        shared = {
            name: getattr(first, name)
            for name, field in RankRecord.model_fields.items()
            if (field.alias or name) not in own and name != "facts"
        }
        record, unknown = understood(RankRecord, {**shared, **own})
        newer.update(dict.fromkeys(unknown))
        facts = {k: v for k, v in first.facts.items() if (k if k in fields else "facts") not in own}
        yield entry.rank, record.model_copy(update={**shared, "facts": facts | record.facts})


def _pack(journals: Mapping[int, bytes], room: int) -> dict[int, tuple[int, bytes]] | None:
    """Each journal's size and compressed bytes; None as soon as they exceed ``room``."""
    packed: dict[int, tuple[int, bytes]] = {}
    for key in sorted(journals):
        data = zlib.compress(_shuffle(journals[key]), 6)
        room -= len(data)
        if room < 0:
            return None
        packed[key] = (len(journals[key]), data)
    return packed


def _join(head: bytes, packed: Mapping[int, tuple[int, bytes]]) -> bytes:
    return b"".join([_OPENING.pack(_MAGIC, len(head)), head, *(data for _, data in packed.values())])


def _shuffle(data: bytes) -> bytes:
    whole = len(data) // _ROW * _ROW
    return b"".join([*(data[plane:whole:_ROW] for plane in range(_ROW)), data[whole:]])


def _unshuffle(data: bytes) -> bytes:
    rows = len(data) // _ROW
    out = bytearray(data)
    for plane in range(_ROW):
        out[plane : rows * _ROW : _ROW] = data[plane * rows : (plane + 1) * rows]
    return bytes(out)


def _inflate(data: bytes, limit: int, part: str) -> bytes:
    """At most ``limit`` bytes: a few bytes of a hostile payload must not fill the memory."""
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise EnvelopeError(f"{part}: damaged ({error})") from None
    if len(inflated) > limit:
        raise EnvelopeError(f"{part}: larger than {limit} bytes")
    if not stream.eof or stream.unused_data:
        raise EnvelopeError(f"{part}: truncated, or followed by other data")
    return inflated


def _spans(journals: Mapping[int, bytes]) -> str:
    """Ranks as ``ranks 0-3, 5``."""
    spans: list[list[int]] = []
    for rank in sorted(journals):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    shown = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans[:8])
    return f"ranks {shown}" + (f" and {len(spans) - 8} spans more" if len(spans) > 8 else "")


def _foreign_json(data: bytes) -> Any:
    """JSON that anybody may have written, nested at most 32 deep: 64-bit integers, finite numbers, Unicode text.

    Raises:
        ValueError: for anything else.
    """
    value = from_json(data, allow_inf_nan=False)
    level = [value]
    for _ in range(_MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
            elif isinstance(item, int) and not -_INT64 <= item < _INT64:
                raise ValueError("an integer exceeds 64 bits")
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError("a number is not finite")
        if not deeper:
            return value
        level = deeper
    raise ValueError(f"nested deeper than {_MAX_DEPTH}")
