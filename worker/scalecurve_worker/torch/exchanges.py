"""Which steps of a program have an exchange between ranks, by the counts that torch's process groups keep."""

from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import torch.distributed as dist
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook


class Exchanges:
    """Which updates have a collective before them, from the first observed step on until a window opens."""

    def __init__(self) -> None:
        self.met: str | None = None
        """A digest of the parameters after the latest exchange, where not every step has one."""
        self._runs: list[list[bool]] = []
        self._sample: Callable[[], str | None] = lambda: None
        self._first: Optimizer | None = None
        self._before: int | None = None
        self._remove: Callable[[], None] | None = None

    def begin(self, sample: Callable[[], str | None]) -> None:
        """Watch the updates that follow; ``sample`` digests the parameters."""
        self.end()
        self._sample, self._before = sample, None
        self._runs.append([])
        self._remove = register_optimizer_step_pre_hook(self._update).remove

    def end(self) -> None:
        """Watch no more."""
        if self._remove is not None:
            self._remove()
        self._remove = None

    @property
    def period(self) -> int | None:
        """Updates from one exchange to the next; None where that differs, or every update has one."""
        at = [[index for index, exchanged in enumerate(run) if exchanged] for run in self._runs]
        gaps = {after - before for run in at for before, after in pairwise(run)}
        return gaps.pop() if len(gaps) == 1 and gaps != {1} else None

    @property
    def silent_steps(self) -> int | None:
        """Most updates in a row without any exchange; None where there was none at all."""
        if not any(map(any, self._runs)):
            return None
        return max(sum(1 for _ in same) if not kind else 0 for run in self._runs for kind, same in groupby(run))

    def _update(self, optimizer: Optimizer, *_: Any) -> None:
        self._first = self._first or optimizer
        if optimizer is not self._first:
            return
        before, self._before = self._before, collectives()
        if before is None or self._before is None:
            return
        run = self._runs[-1]
        run.append(self._before > before)
        if run[-1] and not all(run):
            self.met = self._sample()


def collectives() -> int | None:
    """Count the collectives that this process has begun, as torch's process groups do; None without any."""
    if not (dist.is_available() and dist.is_initialized()):
        return None
    try:
        groups: Any = dist.distributed_c10d._world.pg_map  # torch types no such method
        return sum(int(group._get_sequence_number_for_group()) for group in groups)
    except (RuntimeError, AttributeError):
        return None
