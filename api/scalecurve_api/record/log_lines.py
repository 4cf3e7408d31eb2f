"""A payload as lines of a log that other processes write to as well, and back."""

import binascii
import re
from collections.abc import Iterable, Iterator

from scalecurve_api.record.envelope import EnvelopeError, digest

MARK = "scalecurve-record"
_PART = 3000
"""Bytes in a line: with its base64 and its number a line stays under 4,096 bytes, which pipes take in one piece."""
_MARK = MARK.encode()
_LINE_BYTES = 8192
"""Of a line's end: more than any line of a record has"""
_MOST_OPEN = 4
_LEAST_PART = 512
_SPARE_LINES = 1000
_PART_OVERHEAD = 150
"""Bytes of memory beside those of a part"""
_OVERHEAD = 1.4
_NO_BEGINNING = "the record's first line is missing: the log was cut at its beginning"
_EDGE = r"(?P<edge>begin|end) parts=(?P<parts>\d{1,9}) bytes=(?P<bytes>\d{1,12}) sha256=(?P<sha256>[0-9a-f]{64})"
_LINE = re.compile(MARK + " (?:" + _EDGE + r"|(?P<id>[0-9a-f]{12}) (?P<number>\d{1,9}) (?P<text>[A-Za-z0-9+/=]+))\s*$")


def frame(payload: bytes) -> Iterator[str]:
    """The lines to print, without their newlines, each under 4,096 bytes.

    Print each with one write: a pipe takes that much in one piece, so that other writers' lines fall between them.
    """
    sha256 = digest(payload)
    parts = -(-len(payload) // _PART)
    edge = f"parts={parts} bytes={len(payload)} sha256={sha256}"
    yield f"{MARK} begin {edge}"
    for number in range(parts):
        text = binascii.b2a_base64(payload[number * _PART : (number + 1) * _PART], newline=False).decode()
        yield f"{MARK} {sha256[:12]} {number} {text}"
    yield f"{MARK} end {edge}"


def unframe(lines: Iterable[str]) -> bytes:
    """The last complete payload in a log, whatever else is printed between its lines.

    Raises:
        EnvelopeError: when there is none; the message says what is missing, torn or different.
    """
    reader = LogReader()
    for line in lines:
        reader.line(line)
    return reader.payload()


class RecordTooLargeError(EnvelopeError):
    """The log announces a record of more bytes than are read."""


class LogTooLargeError(EnvelopeError):
    """The log goes on and on."""


class LogReader:
    """Reads a log piece by piece and keeps only the parts of records, at most ``most_bytes`` of them at a time."""

    def __init__(self, most_bytes: int = 1 << 40, most_log_bytes: int = 1 << 40) -> None:
        self._most, self._most_log, self._read = most_bytes, most_log_bytes, 0
        self._lines_left = _SPARE_LINES + 2 * most_bytes // _LEAST_PART
        self._rest = b""
        self._open: dict[str, _Frame] = {}
        self._complete: bytes | None = None
        self._wrong = "no record in the log"

    def feed(self, data: bytes) -> None:
        """The next bytes of the log, cut anywhere.

        Raises:
            LogTooLargeError: they are more than ``most_log_bytes`` by now, or more lines than any record has.
            RecordTooLargeError: they announce a record of more than ``most_bytes``.
        """
        self._read += len(data)
        if self._read > self._most_log:
            raise LogTooLargeError(f"the log has more than {self._most_log >> 20} MiB, which are read")
        data = self._rest + data
        begin = 0
        # Only lines with a mark are looked at: most of a log is anything else, of any size and number of lines.
        while (at := data.find(_MARK, begin)) >= 0 and (end := data.find(b"\n", at)) >= 0:
            self.line(data[at:end][-_LINE_BYTES:].decode(errors="replace"))
            begin = end + 1
        self._rest = data[max(begin, data.rfind(b"\n") + 1) :][-_LINE_BYTES:]

    def line(self, line: str) -> None:
        """One line of the log."""
        # What another process printed without a newline stands before the mark.
        at = line.rfind(MARK)
        self._lines_left -= at >= 0
        if self._lines_left < 0:
            raise LogTooLargeError(f"the log has more lines of records than one of {self._most} bytes has")
        match = _LINE.match(line, at) if at >= 0 else None
        if match is None:
            return
        if match["edge"] is None:
            self._add(match["id"], int(match["number"]), match["text"])
            return
        key = match["sha256"][:12]
        if match["edge"] == "begin":
            self._begin(key, _Frame(int(match["parts"]), int(match["bytes"]), match["sha256"]))
        elif (closed := self._open.pop(key, None)) is None:
            self._wrong = _NO_BEGINNING
        else:
            try:
                self._complete = closed.join()
            except EnvelopeError as error:
                self._wrong = str(error)

    def payload(self) -> bytes:
        """The last complete payload.

        Raises:
            EnvelopeError: when there is none; the message says what is missing, torn or different.
        """
        if self._rest:
            self.line(self._rest.decode(errors="replace"))
            self._rest = b""
        if self._complete is not None:
            return self._complete
        if self._open:
            raise EnvelopeError(next(reversed(self._open.values())).cut())
        raise EnvelopeError(self._wrong)

    def _begin(self, key: str, frame: "_Frame") -> None:
        if frame.size > self._most:
            raise RecordTooLargeError(f"the record has {frame.size} bytes, at most {self._most} are read")
        if frame.parts > frame.size // _LEAST_PART + 1:
            self._wrong = f"the record has {frame.parts} parts of {frame.size} bytes"
        else:
            self._open.pop(key, None)
            self._open[key] = frame
            if len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]

    def _add(self, key: str, number: int, text: str) -> None:
        if key in self._open:
            self._open[key].add(number, text)
            if sum(frame.held for frame in self._open.values()) > self._most * _OVERHEAD + _LINE_BYTES:
                del self._open[next(iter(self._open))]
        else:
            self._wrong = _NO_BEGINNING


class _Frame:
    """Parts of one frame as they come."""

    def __init__(self, parts: int, size: int, sha256: str) -> None:
        self.parts, self.size, self._sha256 = parts, size, sha256
        self.held = 0  # bytes of memory, about
        self._found: dict[int, bytes] = {}

    def add(self, number: int, text: str) -> None:
        if (former := self._found.pop(number, None)) is not None:
            self.held -= len(former) + _PART_OVERHEAD
        if number >= self.parts:
            return
        try:
            data = self._found[number] = binascii.a2b_base64(text, strict_mode=True)
        except binascii.Error:
            return
        self.held += len(data) + _PART_OVERHEAD

    def cut(self) -> str:
        return f"the record's last line is missing: {len(self._found)} of {self.parts} parts were read"

    def join(self) -> bytes:
        missing = self._find_missing_parts()
        if missing:
            more = f" and {missing[-1]} more" if missing[-1] else ""
            raise EnvelopeError(f"the record lacks part {', '.join(map(str, missing[:-1]))}{more} of {self.parts}")
        payload = b"".join(self._found[number] for number in range(self.parts))
        if len(payload) != self.size:
            raise EnvelopeError(f"the record has {len(payload)} bytes, expected {self.size}")
        if digest(payload) != self._sha256:
            raise EnvelopeError(f"the record's sha256 is {digest(payload)}, expected {self._sha256}")
        return payload

    def _find_missing_parts(self, most: int = 5) -> list[int]:
        """The first few missing parts, then how many more there are; empty when none is."""
        lacking = self.parts - sum(number < self.parts for number in self._found)
        if not lacking:
            return []
        few: list[int] = []
        number = 0
        while len(few) < min(most, lacking):
            if number not in self._found:
                few.append(number)
            number += 1
        return [*few, lacking - len(few)]
