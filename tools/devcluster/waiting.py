"""Waiting for what is not there at once, and the questions that say whether it is."""

import contextlib
import http.client
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable

READY_S = 240.0
"""Forever on a machine that has much else to do, and less than pytest's limit for a test."""
_ANSWER_S = 60.0
_OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
)


def wait_until(met: Callable[[], bool], condition: str, timeout_s: float = READY_S) -> None:
    """Return once `met` is true. Raises TimeoutError naming the condition."""
    deadline = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {condition}")
        time.sleep(0.02)


def healthy(server: str, path: str) -> bool:
    """Whether a GET answers 200 in time. Who serves is not asked, for these certificates are made up at start."""
    try:
        with _OPENER.open(f"{server}{path}", timeout=_ANSWER_S) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def listens(port: int) -> bool:
    """Whether somebody listens on this port of the loopback address."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_S):
        return True
    return False
