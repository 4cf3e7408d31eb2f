"""What a worker does before it loads anything heavy: tie its life to its launcher, and pin its cores.

Only the standard library is imported here; thread counts are read by OpenMP once, when torch loads.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from scalecurve_api.contract import (
    CORES_ENV,
    POD_INDEX_ENV,
    PODS_ENV,
    ROLE_ENV,
    THREADS_ENV,
    TRIAL_ENV,
    WORKING_DIR_ENV,
)
from scalecurve_worker.process.identity import identify

_PR_SET_PDEATHSIG = 1
_GPUS = ("/dev/nvidiactl", "/dev/kfd")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class StartupError(ValueError):
    """Cores or threads that this process cannot take."""


def prepare() -> None:
    """Die with the parent, pin to the cores of ``SCALECURVE_CORES``, set the threads of ``SCALECURVE_THREADS``.

    All three outlive ``exec``. Under mpirun in pods, what ranks other than 0 print goes to stderr.

    Raises:
        StartupError: cores or threads that cannot be taken; the message names the variable.
    """
    die_with_parent()
    if os.environ.get(PODS_ENV) and os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        # mpirun passes output on in blocks, not in lines; rank 0's record must not be cut by another rank's.
        os.dup2(2, 1)
    sets = os.environ.get(CORES_ENV, "")
    # Shares of a pod are for workers: what else runs there may use every core.
    if not sets and not os.environ.get(ROLE_ENV):
        sets = cores_of_pod(os.environ, allowed_cores())
    pin(identify().local_rank, together(sets, os.environ.get("LOCAL_WORLD_SIZE", "")))
    set_threads(os.environ.get(THREADS_ENV, ""))


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends (``man 2 prctl``)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def allowed_cores() -> list[int]:
    """Return the cores that this process may run on, by number."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cores_of_pod(
    environment: Mapping[str, str], cores: Sequence[int], machine: int | None = None, gpus: bool | None = None
) -> str:
    """Return a set of cores for each worker of a pod that computes on CPUs, as ``SCALECURVE_CORES``; empty to set none.

    Workers of one pod see the same cores, and so do pods of one node, unless the kubelet gives each pod cores of its
    own (``cpuManagerPolicy: static``). ``machine`` is how many cores there are, by default as the kernel counts.
    """
    try:
        pods = int(environment.get(PODS_ENV, ""))
        point = json.loads(environment.get(TRIAL_ENV, ""))["point"]
        workers, nodes = int(point["workers"]), int(point["nodes"])
        index = int(environment.get(POD_INDEX_ENV, "0"))
    except (ValueError, KeyError, TypeError):
        return ""
    if gpus if gpus is not None else any(os.path.exists(path) for path in _GPUS):
        return ""
    exclusive = len(cores) < (machine or os.cpu_count() or 1)
    pods_beside = 1 if exclusive else max(1, pods // nodes)
    local = workers // pods
    each = len(cores) // (pods_beside * local)
    if pods_beside * local < 2 or each < 1:
        return ""
    first = index % pods_beside * local
    return ";".join(",".join(map(str, cores[at * each : (at + 1) * each])) for at in range(first, first + local))


def together(sets: str, processes: str) -> str:
    """Join the sets of cores of each of so many local processes, where one process drives several workers."""
    parts = sets.split(";")
    each, rest = divmod(len(parts), int(processes)) if processes.isdigit() and int(processes) else (1, 0)
    if each < 2 or rest:
        return sets
    return ";".join(",".join(parts[at : at + each]) for at in range(0, len(parts), each))


def shares_of_cores(workers: int) -> list[list[int]]:
    """Return the cores of each worker this process drives: as they were given, else equal parts of all it may use.

    With fewer cores than workers they share all of them.
    """
    cores = allowed_cores()
    sets = [part.split(",") for part in os.environ.get(CORES_ENV, "").split(";")]
    if len(sets) == workers and all(core.isdigit() for part in sets for core in part):
        parts = [sorted({int(core) for core in part}) for part in sets]
        if sorted({core for part in parts for core in part}) == cores:
            return parts
    each = len(cores) // workers
    return [cores[at * each : (at + 1) * each] or cores for at in range(workers)]


def enter_working_dir() -> None:
    """Change to the folder of ``SCALECURVE_WORKING_DIR``, where it is set.

    Raises:
        WorkloadError: it cannot be entered.
    """
    folder = os.environ.get(WORKING_DIR_ENV, "")
    try:
        os.chdir(folder or ".")
    except OSError as error:
        from scalecurve_worker.process.failure import WorkloadError

        raise WorkloadError(f"workload.workingDir: cannot enter {folder!r}: {error.strerror}") from error


def pin(rank: int, sets: str) -> None:
    """Keep to the ``rank``-th set of ``sets``, as ``0,1;2,3``; an empty string leaves the process as it is."""
    if not sets.strip():
        return
    try:
        cores = [{int(core) for core in part.split(",")} for part in sets.split(";")]
    except ValueError:
        raise StartupError(f"{CORES_ENV}={sets!r}: expected core numbers, as 0,1;2,3") from None
    if rank >= len(cores):
        raise StartupError(f"{CORES_ENV}={sets!r}: {len(cores)} core sets, but this is local rank {rank}")
    try:
        os.sched_setaffinity(0, cores[rank])
    except OSError as error:
        raise StartupError(f"{CORES_ENV}={sets!r}: cannot take cores {sorted(cores[rank])}: {error}") from None


def set_threads(count: str) -> None:
    """Set every thread-count variable; an empty string leaves them as they are."""
    if not count.strip():
        return
    if not count.isdigit() or int(count) < 1:
        raise StartupError(f"{THREADS_ENV}={count!r}: expected a positive number")
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, count))
