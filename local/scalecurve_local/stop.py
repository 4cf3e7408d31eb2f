"""Stop a run, from a signal handler or by a time limit."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class StopRequest:
    """The first call ends the run's processes gracefully and keeps its records; the second kills them."""

    def __init__(self) -> None:
        self.times = 0
        self.expired = False

    def __call__(self, *_: object) -> None:
        self.times += 1

    @property
    def requested(self) -> bool:
        return self.expired or self.times > 0

    @property
    def at_once(self) -> bool:
        return self.times > 1

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Stop gracefully after ``seconds``, if given."""
        timer = threading.Timer(seconds, setattr, (self, "expired", True)) if seconds is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
