"""The model that a program trains, as its optimizers and its modules tell."""

import gc
from collections.abc import Iterable, Sequence

from torch import nn
from torch.optim import Optimizer

_WRAPPERS = ("torch.nn.parallel", "torch.distributed", "deepspeed")


def trained_model(optimizers: Iterable[Optimizer]) -> nn.Module | None:
    """The outermost module whose parameters the optimizers update; several in one list, where no module has all.

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
    """Optimizers that update something, with those that share their parameters (one wraps the other) counted once."""
    firsts = {
        next((id(p) for group in one.param_groups for p in group["params"] if p.requires_grad), None)
        for one in optimizers
    }
    return len(firsts - {None})


def _modules() -> Sequence[nn.Module]:
    # The type and not the class that an object claims to be: a proxy of someone's could do anything.
    return [found for found in gc.get_objects() if issubclass(type(found), nn.Module)]


def _outermost(modules: Sequence[nn.Module]) -> list[nn.Module]:
    inner = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
    return [module for module in modules if id(module) not in inner and "_parameters" in module.__dict__]


def _wraps(module: nn.Module) -> bool:
    return type(module).__module__.startswith(_WRAPPERS)


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
