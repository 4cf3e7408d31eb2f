"""How a rank reports why it failed."""

import os
import sys
import time
from pathlib import Path
from types import TracebackType

from scalecurve_api.contract import PODS_ENV, failure_file
from scalecurve_api.files import write_atomic
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec.secrets import masked, values_in
from scalecurve_api.spec.trial import FailedReason

FAILURE_MARK = "scalecurve-failure"
"""Begins a line of a pod's log that holds a ``RankFailure``."""

_finished = False

_LOST = ("connection closed", "closed by peer", "connection reset", "broken pipe")
_SETTLE_S = 5.0
_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


class WorkloadError(ValueError):
    """A workload that this worker, or this machine, cannot run; one line says what is allowed.

    Raised wherever a program finds out, and reported as the rank's failure with reason BadWorkload.
    """


def explain(rank: int, error: BaseException) -> RankFailure:
    """Explain the error in one line, and whose it is: the user's request, memory, or the rank itself."""
    # File names that are no UTF-8 come with lone surrogates, which no JSON can hold.
    text = " ".join(str(error).encode(errors="replace").decode().split())
    text = masked(text, values_in(os.environ))
    if isinstance(error, WorkloadError):
        return RankFailure(rank=rank, reason=FailedReason.bad_workload.value, message=text[:1000])
    reason = FailedReason.out_of_memory if out_of_memory(error) else FailedReason.rank_failed
    message = f"{type(error).__name__}: {text}".removesuffix(": ")[:800]
    return RankFailure(rank=rank, reason=reason.value, message=f"{message}{_advice(error)}"[:1000])


def note_finished() -> None:
    """Note that the program has called ``finish``: errors from now on concern what it does after the measurement."""
    global _finished
    _finished = True


def _advice(error: BaseException) -> str:
    """What to do about an error that newcomers meet, in brackets; empty for all others."""
    name = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(name, str) and name and not os.path.isabs(name):
        return f" (relative to the working folder {os.getcwd()}, which workload.workingDir sets)"
    if out_of_memory(error):
        return " (a smaller scaling.batch needs less)"
    if _finished:
        return " (after finish(), when every window was measured: end the script there, or mend what follows)"
    return ""


def write_failure(folder: Path, failure: RankFailure) -> None:
    """Write a rank's failure file; the first reason stays. In a pod it is printed too: mpirun brings it home."""
    path = folder / failure_file(failure.rank)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = failure.model_dump_json(by_alias=True)
        write_atomic(path, text)
        if os.environ.get(PODS_ENV):
            print(f"{FAILURE_MARK} {text}", file=sys.stderr, flush=True)


def report(out: Path | None, rank: int, error: BaseException) -> None:
    """Print an error that ends this rank in one line, and write its failure file."""
    failure = explain(rank, error)
    print(f"scalecurve: rank {rank}: {failure.message}", file=sys.stderr)
    if out is not None:
        write_failure(out, failure)
    _outlive(error)


def report_uncaught(out: Path | None, rank: int) -> None:
    """Write a failure file for any error that ends this process; the traceback is printed as ever."""
    if out is None:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            write_failure(out, explain(rank, error))
        before(kind, error, trace)
        _outlive(error)
        _abort_mpi()

    sys.excepthook = hook


def _outlive(error: BaseException) -> None:
    """Let mpirun notice a lost rank before this one, which only lost its connection, ends.

    It reports the first end alone. Having noticed, mpirun ends this rank too, so the wait is short.
    """
    if "OMPI_COMM_WORLD_RANK" in os.environ and any(text in str(error).lower() for text in _LOST):
        sys.stderr.flush()
        time.sleep(_SETTLE_S)


def _abort_mpi() -> None:
    """End the other ranks too: at exit mpi4py finalizes MPI, which waits for all of them, for ever."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.Get_size() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(1)


def out_of_memory(error: BaseException) -> bool:
    """Return whether the memory of the machine or of its accelerator did not suffice."""
    if isinstance(error, MemoryError):
        return True
    torch = sys.modules.get("torch")
    if isinstance(error, (getattr(torch, "OutOfMemoryError", ()), getattr(torch, "AcceleratorError", ()))):
        return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error)
    # torch's allocator for the host raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _NO_MEMORY)
