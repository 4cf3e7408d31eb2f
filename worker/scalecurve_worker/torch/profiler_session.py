"""A session of torch's profiler over a few steps."""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch._C._autograd import _profiler_enabled
from torch.autograd.profiler import profile

_BYTES = {"double": 8, "long": 8, "long int": 8, "c10::Half": 2, "c10::BFloat16": 2, "short": 2}
_BYTES |= {"unsigned char": 1, "signed char": 1, "bool": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1}

PROGRAMS_OWN = "the program profiles itself"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def tensor_list_bytes(event: Any) -> int:
    """Count the bytes of the tensors that an event was handed, in a session with ``record_shapes``."""
    shaped = zip(event.shapes(), event.dtypes(), strict=False)
    return sum(math.prod(shape) * _BYTES.get(kind, 4) for shape, kind in shaped if kind)


class ProfilerSession:
    """Profiles from ``begin`` to ``end``, which are called by one thread.

    A process that exits while it is profiled ends with a segmentation fault (torch 2.14), whatever it died of: an
    exception of the program would look like a crash of torch. So a session ends before the interpreter does.
    ``problem`` says why the last session has no events; None where it has.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._profiler: Any = None  # torch leaves it without types
        self._thread = 0

    def begin(self, **options: Any) -> None:
        """Start ``torch.autograd.profiler.profile``, unless the program profiles itself."""
        if _profiler_enabled():
            # Since torch 2.14 a second session is no error: it cancels the first.
            self.problem = PROGRAMS_OWN
            return
        os.environ.setdefault("KINETO_LOG_LEVEL", "5")
        try:
            # Without use_kineto torch takes CUDA events of its own instead, and no kernel is in the trace.
            profiler: Any = profile(**options, use_kineto=True)
            profiler.__enter__()
        except (RuntimeError, AssertionError) as error:
            self.problem = f"the profiler did not start: {_first_line(error)}"
            return
        self.problem = None
        self._profiler, self._thread = profiler, threading.get_ident()
        atexit.register(self._end_at_exit)

    def end(self, save: Path | None = None) -> Iterable[Any] | None:
        """Return the recorded events.

        None where the program's own profiler kept this one from beginning, or canceled it.

        ``save`` gets the whole trace in Chrome's format, which Perfetto opens.
        """
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return None
        atexit.unregister(self._end_at_exit)
        cancelled = not _profiler_enabled()
        try:
            profiler.__exit__(None, None, None)
        except (RuntimeError, AssertionError) as error:
            self.problem = PROGRAMS_OWN if cancelled else f"the profiler failed: {_first_line(error)}"
            return None
        if cancelled:
            self.problem = PROGRAMS_OWN
            return None
        results = profiler.kineto_results
        if save is not None and results is not None:
            results.save(str(save))
        events: Iterable[Any] | None = None if results is None else results.events()
        if events is None:
            self.problem = "the profiler has no results"
        return events

    def _end_at_exit(self) -> None:
        # Ended by another thread than began it, it would be the fault that this prevents.
        if threading.get_ident() == self._thread:
            self.end()
