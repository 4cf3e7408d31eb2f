"""Ports for ranks of tests: nobody else on this machine chooses them while these tests run."""

from __future__ import annotations

import atexit
import contextlib
import socket

from tools.devcluster.ports import Ports


class RankPorts(Ports):
    """Neighbors too: rank 1 counts up from rank 0's port."""

    def take_pair(self) -> int:
        """A free port on the loopback address; the next one is free and reserved too."""
        while True:
            first = self.take()
            # The name that `Ports` gives to a port.
            name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with contextlib.ExitStack() as undo:
                undo.callback(name.close)
                with contextlib.suppress(OSError), socket.socket() as probe:
                    name.bind(f"\0scalecurve-port-{first + 1}")
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", first + 1))
                    self._names.append(name)
                    undo.pop_all()
                    return first


_PORTS = RankPorts()
"""Of this process, until it ends: a port that a test has had may be in TIME_WAIT."""
atexit.register(_PORTS.release)


def free_port() -> int:
    """A port that nobody listens on, and that no other test gets."""
    return _PORTS.take()


def free_pair() -> int:
    """The first of two ports in a row."""
    return _PORTS.take_pair()
