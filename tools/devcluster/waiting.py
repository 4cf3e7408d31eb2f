"""Waiting for what is not there at once, and the questions that say whether it is."""

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Callable

READY_S = 240.0
"""Forever on a machine that has much else to do, and less than pytest's limit for a test."""
_ANSWER_S = 60.0


def wait_until(met: Callable[[], bool], condition: str, timeout_s: float = READY_S) -> None:
    """Return once `met` is true. Raises TimeoutError naming the condition."""
    deadline = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {condition}")
        time.sleep(0.02)


def healthy(server: str, path: str) -> bool:
    """Whether a GET answers 200 in time.

    Who serves is not asked, for these certificates are made up at start.
    """
    scheme, _, address = server.partition("://")
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            address, timeout=_ANSWER_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(address, timeout=_ANSWER_S)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def listens(port: int) -> bool:
    """Whether somebody listens on this port of the loopback address."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_S):
        return True
    return False
