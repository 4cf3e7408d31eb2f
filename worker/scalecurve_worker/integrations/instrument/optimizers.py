"""What a program's optimizers tell: which model it trains, and which of their updates ends a step."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from torch import nn
from torch.optim import Optimizer

_WRAPPERS = ("torch.nn.parallel", "torch.distributed", "deepspeed")
# Updates after which an optimizer that exists, and has never stepped, is no longer waited for.
_MOST_AWAITED = 32


class StepEnds:
    """A step ends with the update of one optimizer; the others' updates are parts of steps.

    With one optimizer that is the one. With several (a GAN's; AdamW beside Muon) it is the one with the fewest
    updates, and among equals the last of a round: the step then has one of its updates, and all of the others'.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._counts: Counter[int] = Counter()
        self._since = 0

    @property
    def last(self) -> int | None:
        """The optimizer whose update ends a step, once it is known."""
        return self._last

    def ends_step(self, optimizer: int, living: Callable[[], int]) -> bool:
        """Return whether an update of ``optimizer`` ends a step; ``living`` counts the program's optimizers."""
        if self._last is not None:
            self._since = 0 if optimizer == self._last else self._since + 1
            if self._since <= 2 * _MOST_AWAITED * max(1, len(self._counts)):
                return optimizer == self._last
            # It was replaced by another.
            self._last, self._since = None, 0
            self._counts.clear()
        self._counts[optimizer] += 1
        alive = living()
        complete = len(self._counts) >= alive and (alive <= 1 or min(self._counts.values()) > 1)
        if complete or self._counts.total() >= _MOST_AWAITED * alive:
            self._choose(optimizer)
        return optimizer == self._last

    def _choose(self, latest: int) -> None:
        least = min(self._counts.values())
        rarest = [key for key, count in self._counts.items() if count == least]
        self._last = latest if latest in rarest else rarest[-1]


def trained_model(optimizers: Iterable[Optimizer]) -> nn.Module | None:
    """Find the outermost module whose parameters the optimizers update; several in one list, where no module has all.

    An optimizer may hold other tensors than the module (ZeRO's partitions, copies in fp32): then the module with the
    most parameters that are trained. None without one.
    """
    updated = {id(parameter) for one in optimizers for group in one.param_groups for parameter in group["params"]}
    roots = _outermost(_modules())
    shares = [(len(updated.intersection(map(id, root.parameters()))), root) for root in roots]
    held = [(share, root) for share, root in shares if share]
    held.sort(key=lambda pair: (-pair[0], not _wraps(pair[1]), _size(pair[1])))
    if not held:
        trained = [root for root in roots if any(p.requires_grad for p in root.parameters())]
        return max(trained, key=lambda root: (_wraps(root), _size(root)), default=None)
    if held[0][0] == len(updated):
        return held[0][1]
    parts: list[nn.Module] = []
    for _, root in held:
        own = set(map(id, root.parameters())) & updated
        if not own <= {id(p) for part in parts for p in part.parameters()}:
            parts.append(root)
    return parts[0] if len(parts) == 1 else nn.ModuleList(parts)


def count_distinct(optimizers: Iterable[Optimizer]) -> int:
    """Count the optimizers that update something, those that share their parameters (one wraps the other) once."""
    firsts = {
        next((id(p) for group in one.param_groups for p in group["params"] if p.requires_grad), None)
        for one in optimizers
    }
    return len(firsts - {None})


def _modules() -> Sequence[nn.Module]:
    # The type and not the class that an object claims to be: a proxy of someone's could do anything.
    return [module for module in gc.get_objects() if issubclass(type(module), nn.Module)]


def _outermost(modules: Sequence[nn.Module]) -> list[nn.Module]:
    inner = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
    return [module for module in modules if id(module) not in inner and "_parameters" in module.__dict__]


def _wraps(module: nn.Module) -> bool:
    return type(module).__module__.startswith(_WRAPPERS)


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
