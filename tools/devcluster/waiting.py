"""Waiting for what is not there at once, and the questions that say whether it is."""

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Callable

READY_S = 120.0  # two cores may have much else to do


def wait_until(met: Callable[[], bool], condition: str, timeout_s: float = READY_S) -> None:
    """Return once `met` is true. Raises TimeoutError naming the condition."""
    deadline = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {condition}")
        time.sleep(0.02)


def healthy(server: str, path: str) -> bool:
    """Whether a GET answers 200; who serves is not asked, for these certificates are made up at start."""
    scheme, _, address = server.partition("://")
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(address, timeout=5, context=context)
    else:
        connection = http.client.HTTPConnection(address, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except http.client.HTTPException:
            return False


def listens(port: int) -> bool:
    """True when somebody listens on this port of the loopback address. Raises OSError when nobody does."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
