"""The collectives that a program of torch calls, seen where torch dispatches them.

Not by torch's profiler: its threads stay when it has ended, and on one host with two H200s an eager decoder ran 7 %
slower after three profiled steps than before (docs/evidence/h200). A dispatch mode leaves nothing behind.
"""

from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from scalecurve_api.registry import Registry

_of_name: Callable[[str], Any] = vars(dist.distributed_c10d)["_resolve_process_group"]  # torch does not export it
_NAMESPACES = ("c10d", "_c10d_functional")
_NO_DATA = ("barrier", "monitored_barrier_", "check_for_nan", "wait_tensor", "_wrap_tensor_autograd")
_PARTED = {"allreduce": "all_reduce", "allgather": "all_gather", "alltoall": "all_to_all"}
_GROUPS = ("process_group", "group_name")
_PLAIN = (Tensor, Parameter)


class CollectiveCall(NamedTuple):
    """One call: ``gloo:all_reduce``, and the bytes of what it was handed."""

    kind: str
    bytes: int


Tell = Callable[[CollectiveCall], None]
UNDISPATCHED: Registry[Callable[[Tell], Callable[[], None]]] = Registry(
    "scalecurve_worker.collective_libraries",
    "library of collectives",
    FunctionType,
    {},
)
"""Libraries whose collectives torch does not dispatch; a call's kind begins with the name: ``horovod:allreduce``.

An entry tells of every call from then on, and returns what ends that.
"""


class CollectiveCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it without types
    """Tells of every collective that is called while the mode is on, in the backward pass too."""

    supports_higher_order_operators = True

    def __init__(self, tell: Tell) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tell = tell

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator) or any(kind not in (*_PLAIN, FakeTensor) for kind in types):
            return NotImplemented  # it comes again, as operations on what a DTensor or another such tensor holds
        if func.namespace in _NAMESPACES and FakeTensor not in types:
            call = collective_call(func, args)
            if call is not None:
                self._tell(call)
        return func(*args, **(kwargs or {}))


def collective_call(func: Any, args: Iterable[Any]) -> CollectiveCall | None:
    """Describe what an operator of torch's process groups is called for; None where it sends no program data."""
    name = func.overloadpacket.__name__
    if name in _NO_DATA:
        return None
    given = dict(zip(_argument_names(func), args, strict=False))
    handed = [value for prefix in ("input", "tensor") for key, value in given.items() if key.startswith(prefix)]
    tensors = list(_tensors(handed[:1]))
    group = next(value for key, value in given.items() if key in _GROUPS)
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return CollectiveCall(f"{_library(group, tensors)}:{_title(name)}", size)


@cache
def _argument_names(func: Any) -> list[str]:
    return [argument.name for argument in func._schema.arguments]


def _title(name: str) -> str:
    """As torch's profiler has it: ``all_reduce`` of ``allreduce_``."""
    for joined, parted in _PARTED.items():
        name = name.replace(joined, parted)
    return name.rstrip("_")


def _library(group: Any, tensors: list[Tensor]) -> str:
    """The library that carries a group's sums, as ``nccl``."""
    if isinstance(group, str):
        group = _of_name(group)
    elif not isinstance(group, dist.ProcessGroup):
        group = dist.ProcessGroup.unbox(group)
    try:
        return str(group._get_backend(tensors[0].device).name()).lower() if tensors else str(group.name()).lower()
    except RuntimeError:
        return str(group.name()).lower()


def _tensors(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
