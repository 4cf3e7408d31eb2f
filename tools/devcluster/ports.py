"""Ports that two test runs on one machine never choose alike."""

import random
import socket

FIRST, LAST = 20_000, 30_000
"""Below the range that the system hands out to outgoing connections, which would take a port between choice and use."""


class Ports:
    """Reserves ports for as long as it lives: each stands for a name in the abstract socket namespace.

    The kernel lets one process bind such a name and frees it when that process ends, however it ends: no file stays.
    """

    def __init__(self) -> None:
        self._names: list[socket.socket] = []

    def take(self) -> int:
        """A free port on the loopback address. Raises OSError when there is none."""
        for port in random.sample(range(FIRST, LAST), LAST - FIRST):
            name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                name.bind(f"\0scalecurve-port-{port}")
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                name.close()
                continue
            self._names.append(name)
            return port
        raise OSError(f"no free port between {FIRST} and {LAST} on 127.0.0.1")

    def release(self) -> None:
        """Give every port back."""
        while self._names:
            self._names.pop().close()
