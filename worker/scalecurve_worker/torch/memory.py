"""Peak memory of the measured program, without what its alternate takes."""

from __future__ import annotations

import resource

import torch


class PeakMemory:
    """Highest allocation on the device; on a CPU, of the process.

    Counting starts when this is made. ``beside`` is what the alternate holds while the measured steps run.
    """

    def __init__(self, device: torch.device) -> None:
        self.beside = 0
        self._device = device
        self._highest = 0
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def pause(self) -> None:
        if self._device.type == "cuda":
            self._highest = max(self._highest, torch.cuda.max_memory_allocated(self._device) - self.beside)

    def resume(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def bytes(self) -> int:
        if self._device.type != "cuda":
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.pause()
        return self._highest
