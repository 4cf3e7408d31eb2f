"""TensorBoard's event files: step times or throughput of one run, from the scalars of known names or of a named one.

The format is TFRecord framing around three protobuf messages (Event, Summary, TensorProto) and has not changed since
2016, so it is read here: the library tensorboard brings a dozen packages for it.
https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from scalecurve_api.text import count, few
from scalecurve_importing.columns import Statements, entry_of, meaning
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError, Unit
from scalecurve_importing.run_lines import runs_of
from scalecurve_importing.series import readings_of
from scalecurve_importing.stated import stated
from scalecurve_importing.text_file import read_bytes

_KNOWN = {
    "throughput(tps)": "tokens/s/gpu",  # torchtitan
    "train_step_timing in s": "step_time_s",  # NeMo
    "iteration-time": "step_time_s",  # Megatron-LM and Megatron Bridge
    "train/train_samples_per_second": "samples/s",  # Hugging Face's Trainer
    "train_samples_per_second": "samples/s",
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TABLE: list[int] = []
Scalars = dict[str, list[tuple[int, float]]]


def recognized(path: Path, head: str) -> bool:
    """Return whether it is an event file, or a folder with some and nothing that says more."""
    return "tfevents" in path.name or (path.is_dir() and next(path.rglob("*tfevents*"), None) is not None)


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read the run of an event file, or of all in a folder; raises SourceError without a step time or rate."""
    files = sorted(path.rglob("*tfevents*")) if path.is_dir() else [path]
    tags: Scalars = {}
    folders: dict[str, set[str]] = {}
    for file in files:
        for tag, step, value in scalars(read_bytes(file), str(file)):
            tags.setdefault(tag, []).append((step, value))
            folders.setdefault(tag, set()).add(str(file.parent.relative_to(path)) if path.is_dir() else "")
    tag, header = _tag(path, tags, statements)
    if len(folders[tag]) > 1:
        raise SourceError(
            f"{path}: {count(len(folders[tag]), 'folder')} in it have tag {tag!r} ({few(sorted(folders[tag]), 3)}): "
            "import each as a source of its own"
        )
    meant = meaning(header, str(path), replace(statements, columns={}))
    assert meant is not None
    place = f"{path.name}, tag {tag!r}"
    reading = stated(statements.facts, place, lambda field: f"{place}, --set {field}", {})
    is_rate = meant.name == "throughput"
    reading = replace(reading, unit=Unit(meant.unit) if is_rate else Unit.samples)
    entries = [
        entry_of(meant, value, reading, place, number, step)
        for number, (step, value) in enumerate(tags[tag], start=1)
        if value > 0
    ]
    if not entries:
        raise SourceError(f"{place}: has no positive number")
    runs, notes = runs_of(entries, place)
    return readings_of(reading, runs, notes)


def _tag(path: Path, tags: Mapping[str, object], statements: Statements) -> tuple[str, str]:
    """The tag to read, and a header that says what its numbers are."""
    for field in ("throughput", "step_time"):
        if (tag := statements.columns.get(field)) is not None:
            if tag not in tags:
                raise SourceError(f"{path}: has no tag {tag!r}; it has {few(sorted(tags), 12) or 'none'}")
            unit = statements.units.get(field) or statements.units.get(tag)
            if unit is None:
                raise SourceError(f"{path}: the unit of tag {tag!r} is not stated; add --unit {field}=UNIT")
            return tag, unit if field == "throughput" else f"step_time_{unit}"
    for tag, header in _KNOWN.items():
        if tag in tags:
            return tag, header
    raise SourceError(
        f"{path}: none of its tags is known ({few(sorted(tags), 12) or 'it has none'}); name one with --column "
        "step_time=TAG or --column throughput=TAG, and its unit with --unit"
    )


def scalars(data: bytes, name: str) -> Iterator[tuple[str, int, float]]:
    """Yield (tag, step, value) of every scalar; a last record that a kill left unfinished is passed over.

    Raises SourceError for bytes that are no event file.
    """
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        if _masked_crc(data[at : at + 8]) != struct.unpack_from("<I", data, at + 8)[0]:
            raise SourceError(f"{name}: no event file, or damaged: wrong checksum at byte {at}")
        end = at + 12 + length
        if end + 4 > len(data):
            return
        event = data[at + 12 : end]
        if _masked_crc(event) != struct.unpack_from("<I", data, end)[0]:
            raise SourceError(f"{name}: damaged: wrong checksum at byte {at + 12}")
        try:
            yield from _parse_event(event)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise SourceError(f"{name}: damaged: no event at byte {at + 12}") from error
        at = end + 4


def _parse_event(event: bytes) -> Iterator[tuple[str, int, float]]:
    step, summaries = 0, []
    for number, value in _fields(event):
        if number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, body in _fields(summary):
            if number == 1 and isinstance(body, bytes) and (scalar := _parse_value(body)) is not None:
                yield scalar[0], step, scalar[1]


def _parse_value(body: bytes) -> tuple[str, float] | None:
    tag, value = "", None
    for number, part in _fields(body):
        if number == 1 and isinstance(part, bytes):
            tag = part.decode()
        elif number == 2 and isinstance(part, bytes) and len(part) == 4:
            (value,) = struct.unpack("<f", part)
        elif number == 8 and isinstance(part, bytes):
            value = _parse_tensor(part)
    return None if value is None else (tag, value)


def _parse_tensor(tensor: bytes) -> float | None:
    """The one number of a scalar tensor, as TensorFlow 2 writes it; DT_FLOAT is 1 and DT_DOUBLE 2."""
    kind, numbers = 0, []
    for number, part in _fields(tensor):
        if number == 1 and isinstance(part, int):
            kind = part
        elif number in (4, 5, 6) and isinstance(part, bytes):
            form = "<d" if kind == 2 or number == 6 else "<f"
            size = struct.calcsize(form)
            numbers += [struct.unpack(form, part)[0]] if len(part) == size and kind in (0, 1, 2) else []
    return numbers[0] if len(numbers) == 1 else None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of a protobuf message: varints as integers, everything else as its bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if size is None:
            if kind != _BYTES:
                raise IndexError(kind)
            size, at = _varint(data, at)
        if at + size > len(data):
            raise IndexError(at)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _masked_crc(data: bytes) -> int:
    """CRC-32C, masked as TFRecord does; https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4 has its polynomial."""
    if not _TABLE:
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
            _TABLE.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


IMPORTER = Importer(recognized, read)
