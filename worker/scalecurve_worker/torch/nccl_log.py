"""What NCCL reports of its connections, taken from a log of its own at the start of this process's communicators."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalecurve_api.record.transport import Transport, nccl_transport

_SETTINGS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM,NVLS"}
_FILE = "NCCL_DEBUG_FILE"


def log_file() -> Path:
    """Return where this process's NCCL writes; connections may be made as late as the first collective."""
    return Path(tempfile.gettempdir(), f"scalecurve-nccl-{os.getpid()}.log")


@contextmanager
def logged() -> Iterator[None]:
    """Log a communicator made in here; change nothing where the user has NCCL log for themselves.

    NCCL reads the variables once. They are taken back, as a record keeps every variable of NCCL that was set.
    """
    if any(name in os.environ for name in (*_SETTINGS, _FILE)):
        yield
        return
    os.environ.update({**_SETTINGS, _FILE: str(log_file())})
    try:
        yield
    finally:
        for name in (*_SETTINGS, _FILE):
            os.environ.pop(name, None)


def transport(rank: int) -> Transport | None:
    """Return the transport of this rank's connections so far; None where nothing was logged. The log is removed."""
    try:
        text = log_file().read_text(errors="replace")
        log_file().unlink()
    except OSError:
        return None
    return nccl_transport(text, rank)
