"""Steps that alternate with training windows, to split a step into compute and communication; peak memory."""

import resource

import torch
from torch import Tensor

from scalecurve_api.record.rank import WindowKind
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.strategies import state_tensors
from scalecurve_worker.torch.training import Trainer


class PeakMemory:
    """Highest allocation on the device from now on; on a CPU, of the process.

    ``beside`` is what the alternate holds while the measured steps run.
    """

    def __init__(self, device: torch.device) -> None:
        self.beside = 0
        self._device = device
        self._highest = 0
        self.resume()

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


class NoSync:
    """The same step without its all-reduce: replicas drift apart, so all state is put back afterwards.

    ``no_sync`` also skips the copies into buckets, which some other baselines keep; hence it is named. The state
    is kept in host memory, so that it takes none of the device's.
    """

    kind = WindowKind.no_communication

    def __init__(self, trainer: Trainer, memory: PeakMemory) -> None:
        self.method = trainer.wrapped.exposed
        self._trainer = trainer
        self._memory = memory
        self._kept: list[Tensor] = []
        self._scaler: dict[str, object] = {}

    def enter(self) -> None:
        self._memory.pause()
        tensors = state_tensors(self._trainer.wrapped)
        if [t.shape for t in self._kept] != [t.shape for t in tensors]:
            self._kept = [torch.empty_like(each, device="cpu", pin_memory=each.is_cuda) for each in tensors]
        _copy(tensors, self._kept)
        if self._trainer.scaler is not None:
            self._scaler = self._trainer.scaler.state_dict()

    def leave(self) -> None:
        """Put them back, in place: buckets and compiled code hold on to the same memory."""
        _copy(self._kept, state_tensors(self._trainer.wrapped))
        if self._trainer.scaler is not None:
            self._trainer.scaler.load_state_dict(self._scaler)
        self._memory.resume()

    def update(self, batches: list[Batch]) -> Tensor:
        return self._trainer.update(batches, communicate=False)


def _copy(sources: list[Tensor], targets: list[Tensor]) -> None:
    """Between the device and pinned memory of the host."""
    with torch.no_grad():
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source, non_blocking=True)
    if any(each.is_cuda for each in (*sources, *targets)):
        torch.cuda.synchronize()


class Plain:
    """The same step on an identical model without a wrapper, at one worker; training's own model is untouched."""

    kind = WindowKind.plain
    method: str | None = None

    def __init__(self, trainer: Trainer, memory: PeakMemory) -> None:
        self.update = trainer.update
        self.enter = memory.pause
        self._trainer = trainer
        self._memory = memory
        self._note_held()

    def leave(self) -> None:
        """Note how much memory the second model holds beside the measured one, which then runs again."""
        self._trainer.optimizer.zero_grad(set_to_none=True)
        self._note_held()
        self._memory.resume()

    def _note_held(self) -> None:
        self._memory.beside = sum(each.nbytes for each in state_tensors(self._trainer.wrapped))
