"""Steps of anyone's DDP loop without their all-reduce; everything that they change is put back afterwards."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from scalecurve_api.record.rank import WindowKind
from scalecurve_worker.torch.explain.kept_state import (
    Copies,
    KeptState,
    NotKeptError,
    find_other_state,
    holders,
    random_generators,
    walk_state,
)

METHOD = "ddp-no-sync"
_MOST_OF_MEMORY = 0.5
"""Of what the machine has left, over all of its ranks: the copy must never be why a program is killed"""


class Unsynced:
    """DDP under ``no_sync``: replicas drift apart, so everything that a step changes is put back.

    A loop may set the flag of ``no_sync`` for itself, to accumulate gradients; so it is cleared before each forward
    pass, by a hook that is there in these windows alone.
    """

    kind = WindowKind.no_communication
    method: str | None = METHOD

    def __init__(self, model: DistributedDataParallel, state: KeptState) -> None:
        self._model = model
        self._state = state
        self._synced = True
        self._hook: Any = None

    def enter(self) -> None:
        self._state.keep()
        self._synced = self._model.require_backward_grad_sync
        self._hook = self._model.register_forward_pre_hook(_leave_unsynced)

    def leave(self) -> None:
        self._hook.remove()
        self._model.require_backward_grad_sync = self._synced
        self._state.put_back()


def state_of(model: nn.Module, optimizers: Sequence[Optimizer], copies: Copies | None) -> KeptState:
    """Collect everything that a step of the program changes.

    Raises:
        NotKeptError: when it cannot be put back, or another model's steps would still communicate.
    """
    own = {id(parameter) for parameter in model.parameters()}
    updated = (p for each in optimizers for group in each.param_groups for p in group["params"])
    if any(id(parameter) not in own for parameter in updated):
        raise NotKeptError("the optimizer also updates parameters outside of the model that attach() got")
    if any("ZeroRedundancy" in type(each).__name__ for each in optimizers):
        raise NotKeptError("no_sync does not stop the broadcasts of ZeroRedundancyOptimizer")
    roots = [model, *optimizers, *find_other_state()]
    known = [each for each in walk_state(roots) if isinstance(each, Tensor)]
    own_copies = copies.now(known) if copies else []
    state = KeptState([*roots, *own_copies, *(holders(own_copies) if own_copies else ()), *random_generators()])
    room = available_memory() * _MOST_OF_MEMORY / max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if state.size > room:
        size = f"{state.size / 2**30:,.1f} GiB"
        raise NotKeptError(f"a copy of the model and its optimizer, {size}, does not fit the free memory")
    return state


def available_memory(proc: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes of host memory that are free, in the machine and in the container; 0 where unknown."""
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
