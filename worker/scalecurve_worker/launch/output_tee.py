"""Passes the output of a pod's processes on as it comes, and keeps the lines meant for the pod."""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from scalecurve_api.record.log_lines import MARK
from scalecurve_worker.process.failure import FAILURE_MARK

_MARKS = (MARK.encode(), FAILURE_MARK.encode())
_COMMON = b"scalecurve-"
_LONG = 1 << 16
_LAST, _WIDTH = 100, 300


class OutputTee(threading.Thread):
    """Copies ``source`` to ``target`` (file descriptors) until its end; takes ``source`` over.

    With ``secrets`` an unfinished line waits for its end, and every secret in it becomes ``***``.
    """

    def __init__(
        self, source: int, target: int, secrets: Sequence[str] = (), feed: Callable[[bytes], None] = lambda _: None
    ) -> None:
        """``feed`` gets everything as it comes."""
        super().__init__(daemon=True)
        self._feed = feed
        self.marked: list[str] = []
        self.tail: deque[str] = deque(maxlen=_LAST)  # the last lines, each cut short
        self._source, self._target = source, target
        self._secrets = [secret.encode() for secret in secrets]
        self._line = b""
        self._written = 0

    def run(self) -> None:
        """Write each whole line by one call, and an unfinished one at once, unless it is for the pod."""
        try:
            while data := os.read(self._source, 1 << 16):
                self._feed(data)
                *ended, rest = data.split(b"\n")
                for part in ended:
                    self._line += part
                    self._end_line()
                self._line += rest
                if _COMMON not in self._line and not (self._secrets and len(self._line) < _LONG):
                    self._write(self._line[self._written :])
                    self._written = len(self._line)
                    if len(self._line) > _LONG:
                        self._line, self._written = b"", 0
            self._hide()
            self._write(self._line[self._written :])
        finally:
            os.close(self._source)

    def _hide(self) -> None:
        if MARK.encode() in self._line:
            return  # a record's checksum is over what stands there
        for secret in self._secrets:
            self._line = self._line.replace(secret, b"***")

    def _end_line(self) -> None:
        self._hide()
        self._write(self._line[self._written :] + b"\n")
        self.tail.append(self._line[:_WIDTH].decode(errors="replace"))
        if any(mark in self._line for mark in _MARKS):
            self.marked.append(self._line.decode(errors="replace"))
        self._line, self._written = b"", 0

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # nobody reads the log any more: the trial goes on
            while data:
                data = data[os.write(self._target, data) :]
