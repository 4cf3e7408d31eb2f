"""Steps of anyone's DDP loop without their all-reduce; everything that they change is put back afterwards."""

import gc
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from scalecurve_api.record.rank import WindowKind

METHOD = "ddp-no-sync"
_MOST_OF_MEMORY = 0.5
"""Of what the machine has left, over all of its ranks: the copy must never be why a program is killed"""


class Unsynced:
    """DDP under ``no_sync``: replicas drift apart, so parameters, buffers, optimizer state and RNGs are put back.

    A loop may set the flag of ``no_sync`` for itself, to accumulate gradients; so it is cleared before each forward
    pass, by a hook that is there in these windows alone. The state is kept in host memory.
    """

    kind = WindowKind.no_communication
    method: str | None = METHOD

    def __init__(self, model: DistributedDataParallel, optimizers: Sequence[Optimizer]) -> None:
        self._model = model
        self._optimizers = optimizers
        self._scalers = grad_scalers()
        self._kept: list[Tensor] = []
        self._numbers: list[dict[Any, Any]] = []
        self._scales: list[dict[str, Any]] = []
        self._random: dict[str, Any] = {}
        self._synced = True
        self._hook: Any = None

    def enter(self) -> None:
        tensors = state_tensors(self._model, self._optimizers)
        if [t.shape for t in self._kept] != [t.shape for t in tensors]:
            self._kept = [torch.empty_like(each, device="cpu", pin_memory=each.is_cuda) for each in tensors]
        _copy(tensors, self._kept)
        self._numbers = [_numbers(state) for each in self._optimizers for state in each.state.values()]
        self._scales = [scaler.state_dict() for scaler in self._scalers]
        self._random = _random_state(self._model.device)
        self._synced = self._model.require_backward_grad_sync
        self._hook = self._model.register_forward_pre_hook(_leave_unsynced)

    def leave(self) -> None:
        """Put everything back, in place: buckets and compiled code hold on to the same memory."""
        self._hook.remove()
        self._model.require_backward_grad_sync = self._synced
        _copy(self._kept, state_tensors(self._model, self._optimizers))
        states = [state for each in self._optimizers for state in each.state.values()]
        for state, numbers in zip(states, self._numbers, strict=True):
            state.update(numbers)
        for scaler, scale in zip(self._scalers, self._scales, strict=True):
            scaler.load_state_dict(scale)
        _restore_random(self._random, self._model.device)


def why_not(model: DistributedDataParallel, optimizers: Sequence[Optimizer]) -> str | None:
    """Why the steps of this model cannot be put back; None where they can."""
    own = {id(parameter) for parameter in model.parameters()}
    updated = (p for each in optimizers for group in each.param_groups for p in group["params"])
    if any(id(parameter) not in own for parameter in updated):
        return "the optimizer also updates parameters outside of the model that attach() got"
    if any("ZeroRedundancy" in type(each).__name__ for each in optimizers):
        return "no_sync does not stop the broadcasts of ZeroRedundancyOptimizer"
    size = sum(each.nbytes for each in state_tensors(model, optimizers))
    room = available_memory() * _MOST_OF_MEMORY / max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if size > room:
        return f"a copy of the model and its optimizer, {size / 2**30:,.1f} GiB, does not fit the free memory"
    return None


def state_tensors(model: nn.Module, optimizers: Sequence[Optimizer]) -> list[Tensor]:
    """Everything that a step changes: parameters, buffers, and the optimizers' tensors; each once."""
    states = [value for each in optimizers for state in each.state.values() for value in state.values()]
    tensors = [*model.parameters(), *model.buffers(), *(value for value in states if isinstance(value, Tensor))]
    return list({id(tensor): tensor for tensor in tensors}.values())


def grad_scalers() -> list[Any]:
    """The program's gradient scalers, which no model and no optimizer knows."""
    scaler: type = torch.amp.GradScaler
    return [thing for thing in gc.get_objects() if issubclass(type(thing), scaler)]


def available_memory(proc: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """Bytes of host memory that are free for the asking, in the machine and in the container; 0 where unknown."""
    try:
        lines = dict(line.split(":", 1) for line in proc.read_text().splitlines() if ":" in line)
        free = float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0.0
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit.isdigit():
            free = min(free, float(limit) - float((cgroup / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no limit of a container
    return free


def _leave_unsynced(model: Any, _: Any) -> None:
    model.require_backward_grad_sync = False


def _numbers(state: dict[Any, Any]) -> dict[Any, Any]:
    return {name: value for name, value in state.items() if isinstance(value, int | float | bool)}


def _random_state(device: Any) -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    return {
        "python": random.getstate(),
        "numpy": numpy.random.get_state() if numpy is not None else None,
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device is not None and device.type == "cuda" else None,
    }


def _restore_random(state: dict[str, Any], device: Any) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if state["numpy"] is not None:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"], device)


def _copy(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source, non_blocking=True)
    if any(each.is_cuda for each in (*sources, *targets)):
        torch.cuda.synchronize()
