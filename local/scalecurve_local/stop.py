"""How a signal handler asks a run to stop."""

from __future__ import annotations


class StopRequest:
    """Asked once, the run ends its processes gently, keeps what is recorded and returns; asked again, at once."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self.times = 0

    def __call__(self, *_: object) -> None:
        """Ask (once more); may be installed as a signal handler."""
        self.times += 1

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return self.times > 0

    @property
    def at_once(self) -> bool:
        """Whether to kill instead of asking."""
        return self.times > 1
