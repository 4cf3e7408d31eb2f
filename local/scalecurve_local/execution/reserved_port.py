"""A TCP port reserved for this run."""

import socket


class ReservedPort:
    """A free loopback port, bound with SO_REUSEADDR and never listening.

    The kernel does not hand it out as an ephemeral port, and lets a server bind it that sets SO_REUSEADDR too, as
    torch's and Python's do.
    """

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number: int = self.socket.getsockname()[1]

    def fileno(self) -> int:
        """For a supervisor to inherit."""
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()
