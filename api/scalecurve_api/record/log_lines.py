"""A payload as lines of a log that other processes write to as well, and back."""

import binascii
import re
from collections.abc import Iterable, Iterator

from scalecurve_api.record.envelope import EnvelopeError, digest

MARK = "scalecurve-record"
_PART = 3000
"""Bytes in a line: with its base64 and its number a line stays under 4,096 bytes, which pipes take in one piece."""
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
    open_frames: dict[str, _Frame] = {}
    payload: bytes | None = None
    wrong = "no record in the log"
    for line in lines:
        # What another process printed without a newline stands before the mark.
        at = line.rfind(MARK)
        match = _LINE.match(line, at) if at >= 0 else None
        if match is None:
            continue
        if match["edge"] is None:
            if match["id"] in open_frames:
                open_frames[match["id"]].add(int(match["number"]), match["text"])
            else:
                wrong = "the record's first line is missing: the log was cut at its beginning"
            continue
        key = match["sha256"][:12]
        if match["edge"] == "begin":
            open_frames[key] = _Frame(int(match["parts"]), int(match["bytes"]), match["sha256"])
            continue
        closed = open_frames.pop(key, None)
        if closed is None:
            wrong = "the record's first line is missing: the log was cut at its beginning"
            continue
        try:
            payload = closed.join()
        except EnvelopeError as error:
            wrong = str(error)
    if payload is not None:
        return payload
    if open_frames:
        wrong = next(reversed(open_frames.values())).cut()
    raise EnvelopeError(wrong)


class _Frame:
    """Parts of one frame as they come."""

    def __init__(self, parts: int, size: int, sha256: str) -> None:
        self._parts, self._size, self._sha256 = parts, size, sha256
        self._found: dict[int, bytes] = {}

    def add(self, number: int, text: str) -> None:
        try:
            self._found[number] = binascii.a2b_base64(text, strict_mode=True)
        except binascii.Error:
            self._found.pop(number, None)

    def cut(self) -> str:
        return f"the record's last line is missing: {len(self._found)} of {self._parts} parts were read"

    def join(self) -> bytes:
        missing = self._missing()
        if missing:
            more = f" and {missing[-1]} more" if missing[-1] else ""
            raise EnvelopeError(f"the record lacks part {', '.join(map(str, missing[:-1]))}{more} of {self._parts}")
        payload = b"".join(self._found[number] for number in range(self._parts))
        if len(payload) != self._size:
            raise EnvelopeError(f"the record has {len(payload)} bytes, expected {self._size}")
        if digest(payload) != self._sha256:
            raise EnvelopeError(f"the record's sha256 is {digest(payload)}, expected {self._sha256}")
        return payload

    def _missing(self, most: int = 5) -> list[int]:
        """The first few missing parts, then how many more there are; empty when none is."""
        lacking = self._parts - sum(number < self._parts for number in self._found)
        if not lacking:
            return []
        few: list[int] = []
        number = 0
        while len(few) < min(most, lacking):
            if number not in self._found:
                few.append(number)
            number += 1
        return [*few, lacking - len(few)]
