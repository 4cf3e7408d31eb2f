"""What a worker does to itself before anything heavy is loaded: it dies with its launcher, and keeps to its cores.

Only the standard library is imported here; thread counts are read by OpenMP once, when torch loads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from scalebench_api.contract import CORES_ENV, THREADS_ENV
from scalebench_worker.identity import identify

_PR_SET_PDEATHSIG = 1
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class StartupError(ValueError):
    """Cores or threads that this process cannot take."""


def prepare() -> None:
    """Die with the parent, pin to the cores of ``SCALEBENCH_CORES``, set the threads of ``SCALEBENCH_THREADS``.

    All three outlive ``exec``, so a user's own command gets them too.

    Raises:
        StartupError: cores or threads that cannot be taken; the message names the variable.
    """
    die_with_parent()
    pin(identify().local_rank, os.environ.get(CORES_ENV, ""))
    set_threads(os.environ.get(THREADS_ENV, ""))


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends (``man 2 prctl``)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def pin(rank: int, sets: str) -> None:
    """Keep to the ``rank``-th set of ``sets``, as ``0,1;2,3``; an empty string leaves the process as it is.

    Raises:
        StartupError: a malformed string, fewer sets than ranks, or cores that this machine does not have.
    """
    if not sets.strip():
        return
    try:
        cores = [{int(core) for core in part.split(",")} for part in sets.split(";")]
    except ValueError:
        raise StartupError(f"{CORES_ENV}={sets!r}: core numbers are wanted, as 0,1;2,3") from None
    if rank >= len(cores):
        raise StartupError(f"{CORES_ENV}={sets!r}: {len(cores)} sets, and this is local rank {rank}")
    try:
        os.sched_setaffinity(0, cores[rank])
    except OSError as error:
        raise StartupError(f"{CORES_ENV}={sets!r}: cannot take cores {sorted(cores[rank])}: {error}") from None


def set_threads(count: str) -> None:
    """Set every thread-count variable; an empty string leaves them as they are.

    Raises:
        StartupError: not a positive number.
    """
    if not count.strip():
        return
    if not count.isdigit() or int(count) < 1:
        raise StartupError(f"{THREADS_ENV}={count!r}: a positive number is wanted")
    for name in _THREAD_VARIABLES:
        os.environ[name] = count
