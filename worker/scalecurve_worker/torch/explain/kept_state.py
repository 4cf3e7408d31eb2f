"""Everything that a training step changes, copied and put back in place, whatever kind of optimizer holds it.

A list of kinds (parameters, moments, a scaler's scale) forgets what the next optimizer invents: Prodigy keeps what it
learned in `param_groups`, SAM in an optimizer of its own, an average of weights in an object that no optimizer knows.
So the objects are walked as a whole, and what cannot be copied is a reason to change nothing at all.
"""

from __future__ import annotations

import enum
import functools
import gc
import random
import re
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.lr_scheduler import LRScheduler
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_MOST_OBJECTS = 1_000_000
_TENSORS = (Tensor, nn.Parameter, nn.Buffer)
_CONTAINERS = (dict, list, set, deque)
_UNCHANGED = (
    int, float, complex, str, bytes, type(None), type, enum.Enum, range, slice, frozenset, Path, re.Pattern,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, functools.partial,
    weakref.ReferenceType, torch.dtype, torch.device, torch.Size, torch.distributed.ProcessGroup, FakeTensor,
)  # fmt: skip
"""Immutable, code, or without data; a container that holds another in its place is put back itself."""


class NotKeptError(ValueError):
    """An object has state that cannot be copied."""


class KeptState:
    """A copy, in host memory, of the state of some objects; raises ``NotKeptError`` for what cannot be copied."""

    def __init__(self, roots: Sequence[Any]) -> None:
        self._roots = roots
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        self._contents: list[Callable[[], object]] = []

    @property
    def size(self) -> int:
        """Bytes of a copy."""
        return sum(each.nbytes for each in walk_state(self._roots) if isinstance(each, Tensor))

    def keep(self) -> None:
        """Copy everything as it is now."""
        kept: dict[int, tuple[Tensor, Tensor]] = {}
        self._contents = []
        for each in walk_state(self._roots):
            if isinstance(each, Tensor):
                there = self._copies.get(id(each))
                kept[id(each)] = there if there and there[1].shape == each.shape else (each, _room(each))
            else:
                self._contents += _contents(each)
        self._copies = kept
        _copy(kept.values())

    def put_back(self) -> None:
        """Put everything back, in place: buckets and compiled code hold on to the same memory."""
        for restore in self._contents:
            restore()
        _copy((kept, tensor) for tensor, kept in self._copies.values())


def walk_state(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield every tensor, container and object with state that is reached from ``roots``, once.

    Of a module, its parameters and buffers alone.
    """
    seen: dict[int, Any] = {}
    ahead = [(each, type(each).__name__) for each in roots]
    while ahead:
        each, within = ahead.pop()
        if isinstance(each, _UNCHANGED) or id(each) in seen:
            continue
        seen[id(each)] = each  # held, so that no other object takes its number
        if len(seen) > _MOST_OBJECTS:
            raise NotKeptError(f"{within} holds more than {_MOST_OBJECTS:,} objects")
        if is_traceable_wrapper_subclass(each):
            ahead += [(getattr(each, name), type(each).__name__) for name in each.__tensor_flatten__()[0]]
            continue
        if isinstance(each, nn.Module):
            ahead += [(tensor, type(each).__name__) for tensor in (*each.parameters(), *each.buffers())]
            continue
        if not isinstance(each, tuple):
            yield each
        ahead += [(inner, within) for inner in _inside(each, within)]


def find_other_state() -> list[Any]:
    """Find what else alive a step may change: schedulers, gradient scalers, and models beside the trained one."""
    kinds = (LRScheduler, torch.amp.GradScaler, nn.Module)
    return [each for each in gc.get_objects() if issubclass(type(each), kinds)]


def has_grad_scaler() -> bool:
    """Tell whether the program scales its losses, and so skips an update now and then."""
    return any(issubclass(type(each), torch.amp.GradScaler) for each in gc.get_objects())


def random_generators() -> list[Any]:
    """Return the generators a program draws from without making one: of Python, numpy, torch and its GPUs."""
    numpy = sys.modules.get("numpy.random")
    drawn = [random._inst, torch.default_generator, *torch.cuda.default_generators]
    return drawn if numpy is None else [*drawn, numpy.mtrand._rand]


class Copies:
    """Live tensors like a model's weights that neither it nor an optimizer has, such as the script's own average."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._before = {id(each): weakref.ref(each) for each in self._similar_tensors()}

    def now(self, state: Iterable[Tensor]) -> list[Tensor]:
        """Return those that are there now; none where they are like a few weights only, or all in ``state``.

        Raises ``NotKeptError`` if they were replaced since: the next ones will be, and where is not known.
        """
        own = {id(tensor) for tensor in state} | {id(parameter.grad) for parameter in self._model.parameters()}
        like = [each for each in self._similar_tensors() if id(each) not in own]
        if 2 * len({_kind(each) for each in like}) < len(_kinds(self._model)):
            return []
        if any((there := self._before.get(id(each))) is None or there() is not each for each in like):
            raise NotKeptError("the script makes new copies of its weights at every step")
        return like

    def _similar_tensors(self) -> list[Tensor]:
        kinds = _kinds(self._model)
        alive = (each for each in gc.get_objects() if type(each) in _TENSORS)
        like = [each for each in alive if each.grad_fn is None and not each.requires_grad and _kind(each) in kinds]
        # DDP's buckets are tensors that nothing in Python holds.
        held = set(map(id, gc.get_referents(*(each for each in gc.get_referrers(*like) if each is not like))))
        return [each for each in like if id(each) in held]


def holders(tensors: list[Tensor]) -> list[Any]:
    """Find the lists and dictionaries that hold tensors, and the objects that hold these."""
    found = [each for each in gc.get_referrers(*tensors) if each is not tensors]
    containers = [each for each in found if isinstance(each, dict | list) and "__builtins__" not in each]
    around = gc.get_referrers(*containers) if containers else []
    return [*containers, *(each for each in (*found, *around) if _is_an_object(each))]


def _kinds(model: nn.Module) -> set[Any]:
    return {_kind(parameter) for parameter in model.parameters() if parameter.dim() > 1}


def _kind(tensor: Tensor) -> Any:
    return tensor.shape, tensor.dtype, tensor.device


def _inside(holder: Any, within: str) -> Iterator[Any]:
    """What an object holds; raises ``NotKeptError`` where that cannot be known."""
    if isinstance(holder, Tensor):
        if type(holder) not in _TENSORS or holder.layout is not torch.strided:
            raise NotKeptError(f"{within} holds a {type(holder).__name__} of layout {holder.layout}")
    elif isinstance(holder, dict):
        yield from holder.keys()
        yield from holder.values()
    elif isinstance(holder, (*_CONTAINERS, tuple)):
        yield from holder
    elif not _has_own_copy(holder) and not hasattr(holder, "__dict__") and not _slots(holder):
        raise NotKeptError(f"{within} holds a {type(holder).__qualname__}, whose state cannot be copied")
    if not isinstance(holder, Tensor):
        yield from getattr(holder, "__dict__", {}).values()
        yield from _slots(holder).values()


def _contents(holder: Any) -> Iterator[Callable[[], object]]:
    """What puts an object's own contents back, without those of what it holds."""
    if isinstance(holder, dict):
        yield functools.partial(_refill, holder, dict(holder), dict.update)
    elif isinstance(holder, set):
        yield functools.partial(_refill, holder, set(holder), set.update)
    elif isinstance(holder, deque | list):
        yield functools.partial(_refill, holder, list(holder), type(holder).extend)
    elif isinstance(holder, torch.Generator):
        yield functools.partial(holder.set_state, holder.get_state())
    elif isinstance(holder, random.Random):
        yield functools.partial(holder.setstate, holder.getstate())
    elif _is_numpy(holder, "ndarray"):
        yield functools.partial(holder.__setitem__, ..., holder.copy())
    elif _is_numpy(holder, "RandomState"):
        yield functools.partial(holder.set_state, holder.get_state())
    elif _is_numpy(holder, "Generator"):
        yield functools.partial(setattr, holder.bit_generator, "state", holder.bit_generator.state)
    if hasattr(holder, "__dict__"):
        yield functools.partial(_refill, holder.__dict__, dict(holder.__dict__), dict.update)
    for name, value in _slots(holder).items():
        yield functools.partial(setattr, holder, name, value)


def _refill(container: Any, contents: Any, add: Callable[[Any, Any], None]) -> None:
    container.clear()
    add(container, contents)


def _has_own_copy(holder: Any) -> bool:
    return isinstance(holder, torch.Generator | random.Random) or any(
        _is_numpy(holder, kind) for kind in ("ndarray", "RandomState", "Generator")
    )


def _is_numpy(holder: Any, kind: str) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(holder, getattr(numpy if kind == "ndarray" else numpy.random, kind))


def _is_an_object(holder: Any) -> bool:
    """Whether it has attributes of its own, and is neither code nor a model."""
    held = hasattr(holder, "__dict__") or bool(_slots(holder))
    return held and not isinstance(holder, (*_UNCHANGED, *_CONTAINERS, tuple, nn.Module, Tensor))


def _slots(holder: Any) -> dict[str, Any]:
    names = [name for kind in type(holder).__mro__ for name in _slot_names(kind.__dict__.get("__slots__", ()))]
    return {
        name: getattr(holder, name)
        for name in names
        if hasattr(holder, name) and name not in ("__dict__", "__weakref__")
    }


def _slot_names(slots: Any) -> Sequence[str]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _room(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda, requires_grad=False)


def _copy(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy the first of each pair to the second."""
    on_gpu = False
    with torch.no_grad():
        for source, target in pairs:
            target.copy_(source, non_blocking=True)
            on_gpu |= source.is_cuda or target.is_cuda
    if on_gpu:
        torch.cuda.synchronize()
