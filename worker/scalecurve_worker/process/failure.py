"""How a rank reports why it failed."""

import os
import sys
from pathlib import Path
from types import TracebackType

from scalecurve_api.contract import PODS_ENV, failure_file
from scalecurve_api.files import write_atomic
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec.trial import FailedReason

FAILURE_MARK = "scalecurve-failure"
"""Begins a line of a pod's log that holds a ``RankFailure``."""

_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


class WorkloadError(ValueError):
    """A workload that this worker, or this machine, cannot run; one line says what is allowed.

    Raised wherever a program finds out, and reported as the rank's failure with reason BadWorkload.
    """


def reason_of(error: BaseException) -> FailedReason:
    """The kind of an error: the user's request, memory, or the rank itself."""
    if isinstance(error, WorkloadError):
        return FailedReason.bad_workload
    if out_of_memory(error):
        return FailedReason.out_of_memory
    return FailedReason.rank_failed


def explain(rank: int, error: BaseException) -> RankFailure:
    """The error in one line."""
    # File names that are no UTF-8 come with lone surrogates, which no JSON can hold.
    text = " ".join(str(error).encode(errors="replace").decode().split())
    name = type(error).__name__
    message = text if isinstance(error, WorkloadError) else f"{name}: {text}" if text else name
    return RankFailure(rank=rank, reason=reason_of(error).value, message=message[:1000])


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


def report_uncaught(out: Path | None, rank: int) -> None:
    """Write a failure file for any error that ends this process; the traceback is printed as ever."""
    if out is None:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            write_failure(out, explain(rank, error))
        before(kind, error, trace)
        _abort_mpi()

    sys.excepthook = hook


def _abort_mpi() -> None:
    """End the other ranks too: at exit mpi4py finalizes MPI, which waits for all of them, for ever."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.Get_size() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(1)


def out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the machine or of its accelerator did not suffice."""
    if isinstance(error, MemoryError):
        return True
    torch = sys.modules.get("torch")
    kinds = tuple(
        kind for kind in (getattr(torch, "OutOfMemoryError", None), getattr(torch, "AcceleratorError", None)) if kind
    )
    if isinstance(error, kinds):
        return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error)
    # torch's allocator for the host raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _NO_MEMORY)
