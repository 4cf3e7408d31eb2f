"""A TCP port that stays this run's own until it is used."""

from __future__ import annotations

import socket


class ReservedPort:
    """Bound and never listening, with SO_REUSEADDR: the kernel gives the port to nobody who asks for any port, and
    lets a server that asks for this very port (and sets SO_REUSEADDR, as torch's and Python's do) have it.
    """

    def __init__(self) -> None:
        """Take a free port of the loopback interface."""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number: int = self.socket.getsockname()[1]

    def fileno(self) -> int:
        """The open file, for a supervisor to inherit."""
        return self.socket.fileno()

    def close(self) -> None:
        """Give it back."""
        self.socket.close()
