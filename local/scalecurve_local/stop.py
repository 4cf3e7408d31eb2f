"""How a signal handler, or a time limit, asks a run to stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class StopRequest:
    """Asked once, the run ends its processes gently, keeps what is recorded and returns; asked again, at once."""

    def __init__(self) -> None:
        self.times = 0
        self.expired = False

    def __call__(self, *_: object) -> None:
        """Ask (once more); may be installed as a signal handler."""
        self.times += 1

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return self.expired or self.times > 0

    @property
    def at_once(self) -> bool:
        """Whether to kill instead of asking."""
        return self.times > 1

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Ask gently after ``seconds``; never for None."""
        timer = threading.Timer(seconds, self._expire) if seconds is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self) -> None:
        self.expired = True
