"""Evaluations between steps: their time belongs to no step."""

import time

from scalecurve_worker.sdk.batches import LoaderTime
from scalecurve_worker.steps.timing import Clock, Span


class Pauses:
    """Takes pauses out of the steps that they interrupt; the device is idle at both ends of one."""

    def __init__(self, clock: Clock, loading: LoaderTime) -> None:
        self._clock = clock
        self._loading = loading
        self._began: tuple[int, int] | None = None
        self._steps: dict[int, int] = {}
        self.window_ns = self.window_count = 0
        """Of the block that runs now."""
        self.total_ns = 0

    def begin(self) -> None:
        """Time stands still, and waiting for data does not count."""
        if self._began is None:
            self._clock.synchronize()
            self._began = time.monotonic_ns(), self._loading.ns

    def end(self, step: int) -> None:
        """End the pause, as training goes on in the interrupted step; does nothing without a pause."""
        if self._began is None:
            return
        self._clock.synchronize()
        began_ns, self._loading.ns = self._began
        self._began = None
        ns = time.monotonic_ns() - began_ns
        self._steps[step] = self._steps.get(step, 0) + ns
        self.window_ns += ns
        self.window_count += 1
        self.total_ns += ns

    def take_out(self, spans: list[Span], first_step: int) -> list[Span]:
        """Return the steps from ``first_step`` on, without their pauses."""
        if not self._steps:
            return spans
        paused = (self._steps.pop(first_step + at, 0) for at in range(len(spans)))
        return [Span(span.start_ns, span.duration_ns - ns) for span, ns in zip(spans, paused, strict=True)]
