"""Ends of steps on a GPU: one CUDA event a step, read once it is complete."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from scalecurve_worker.steps.timing import Span, UnixTime

_new_event: Callable[..., Any] = torch.cuda.Event  # torch leaves events without types


class CudaClock:
    """Events on the stream that is current when a window opens.

    DDP makes that stream wait for its all-reduces before the optimizer, so exposed communication lies inside the
    times. Complete events are used again: there are never more than steps in flight.
    """

    def __init__(self, unix: UnixTime, device: torch.device) -> None:
        self._unix = unix
        self._device = device
        self._stream = torch.cuda.current_stream(device)
        self._idle: list[Any] = []
        self._pending: deque[Any] = deque()
        self._last: Any = None
        self._last_ns = 0
        self._opened = 0

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def open(self) -> int:
        self._stream = torch.cuda.current_stream(self._device)
        self._last = self._event()
        self._opened = time.monotonic_ns()
        self._last.record(self._stream)
        self._last_ns = self._unix.of(self._opened)
        return self._last_ns

    def mark(self) -> int:
        event = self._event()
        event.record(self._stream)
        self._pending.append(event)
        return time.monotonic_ns()

    def finished(self) -> list[Span]:
        spans: list[Span] = []
        while self._pending and self._pending[0].query():
            event = self._pending.popleft()
            duration = round(self._last.elapsed_time(event) * 1e6)
            spans.append(Span(self._last_ns, duration))
            self._last_ns += duration
            self._idle.append(self._last)
            self._last = event
        return spans

    def close(self) -> int:
        torch.cuda.synchronize(self._device)
        return time.monotonic_ns() - self._opened

    def _event(self) -> Any:
        return self._idle.pop() if self._idle else _new_event(enable_timing=True)
