"""What wraps a model: DDP, FSDP, ``fully_shard`` or a DeepSpeed engine; and its parameters in full."""

import gc
import importlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

_DEEPSPEED = "deepspeed."


def unwrap_compiled(model: Any) -> Any:
    """Return the module that ``torch.compile(model)`` wraps, or the model itself."""
    return getattr(model, "_orig_mod", model)


def enclosing(model: nn.Module) -> nn.Module:
    """Find the wrapper around a model that was passed without it, as DDP is often made later; else the model.

    Every object of the process is looked at: tens of milliseconds.
    """
    inner = unwrap_compiled(model)
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, nn.Module) and thing is not model and _wraps(kind):
            module = thing.__dict__.get("_modules", {}).get("module")
            if module is not None and unwrap_compiled(module) is inner:
                wrapper: nn.Module = thing
                return wrapper
    return model


def _wraps(kind: type) -> bool:
    return issubclass(kind, DistributedDataParallel) or kind.__module__.startswith(_DEEPSPEED)


def wrapper_of(model: Any) -> str | None:
    """Name the wrapper's class, with the stage of DeepSpeed's ZeRO; None for a bare model."""
    model = unwrap_compiled(model)
    kind = type(model)
    if isinstance(model, nn.Module) and any(isinstance(module, FSDPModule) for module in model.modules()):
        return FSDPModule.__name__
    if kind.__module__.startswith(_DEEPSPEED):
        stage = getattr(model, "zero_optimization_stage", int)()
        return f"{kind.__name__}, ZeRO-{stage}" if stage else kind.__name__
    if kind.__module__.startswith(("torch.nn.parallel", "torch.distributed")):
        return kind.__name__
    return None


def ddp_of(model: Any) -> DistributedDataParallel | None:
    """Return the model as DDP, where that is its outermost wrapper; compiled around it, it is none."""
    return model if isinstance(model, DistributedDataParallel) else None


def count_parameters(model: nn.Module) -> int:
    """Count the elements of all parameters, whole where ranks hold shares. Collective with FSDP's older class."""
    if FullyShardedDataParallel.fsdp_modules(model):
        return sum(tensor.numel() for _, tensor in full_parameters(model))
    return sum(_elements(parameter) for parameter in model.parameters())


def count_trained(model: nn.Module) -> int | None:
    """Count elements of parameters that require a gradient; None with FSDP's older class, whose flat ones mix both."""
    if FullyShardedDataParallel.fsdp_modules(model):
        return None
    return sum(_elements(parameter) for parameter in model.parameters() if parameter.requires_grad)


def _elements(parameter: nn.Parameter) -> int:
    """Whole: DeepSpeed's ZeRO-3 leaves an empty parameter, and notes its size beside it."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def full_parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield every parameter with its name, whole, one after another: each is good until the next is asked for.

    Collective where ranks hold shares: FSDP's older class gathers a unit at a time, the others each parameter.
    """
    seen: set[int] = set()
    for number, unit in enumerate(FullyShardedDataParallel.fsdp_modules(model)):
        nested = {
            id(p)
            for inner in FullyShardedDataParallel.fsdp_modules(unit)
            if inner is not unit
            for p in inner.parameters()
        }
        seen |= {id(parameter) for parameter in unit.parameters()}
        with FullyShardedDataParallel.summon_full_params(unit, recurse=False, writeback=False):
            for name, parameter in unit.named_parameters():
                if id(parameter) not in nested:
                    yield f"{number}.{name}", parameter.detach()
    for name, parameter in model.named_parameters():
        if id(parameter) not in seen:
            yield from _whole(name, parameter)


def _whole(name: str, parameter: nn.Parameter) -> Iterator[tuple[str, Tensor]]:
    gather = getattr(parameter, "full_tensor", None)
    if gather is not None:
        yield name, gather().detach()
    elif hasattr(parameter, "ds_id"):
        deepspeed: Any = importlib.import_module("deepspeed")
        with deepspeed.zero.GatheredParameters([parameter]):
            yield name, parameter.detach()
    else:
        yield name, parameter.detach()
