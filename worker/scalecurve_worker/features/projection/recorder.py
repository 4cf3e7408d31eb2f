"""Sees every operation of a step on fake tensors: kernels, collectives, and who waits for whom."""

import math
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from scalecurve_api.record.step_program import ComputeSegment, Exchange, Kind, Phase

# By the start of the operation's name. c10d's write in place, those of the functional namespace return a new tensor.
_KINDS: dict[str, Kind] = {
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "allgather": "all-gather",
    "_allgather": "all-gather",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "_reduce_scatter": "reduce-scatter",
    "broadcast": "broadcast",
    "alltoall": "all-to-all",
    "all_to_all": "all-to-all",
    "send": "point-to-point",
    "recv": "point-to-point",
}
_COLLECTIVES = ("c10d", "_c10d_functional")
# FSDP packs its shares on the stream of the all-gather, beside what is computed.
_BESIDE = "all_gather_copy_in"


class Allocation:
    """Bytes that fake tensors would take: every storage that it was shown, until its last tensor is gone."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self._sizes: dict[int, int] = {}

    def hold(self, tensor: Tensor) -> None:
        """Count the tensor's storage, once."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._sizes:
            return
        self._sizes[key] = 0
        self._set(key, storage.nbytes())
        weakref.finalize(storage, self._forget, key)

    def hold_all(self, tensors: Iterable[Tensor]) -> int:
        """Hold each of several tensors; return their bytes, shared storages once."""
        storages = {}
        for tensor in tensors:
            self.hold(tensor)
            storages[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return sum(storages.values())

    def begin(self) -> None:
        """Reset the peak: the highest point is that from now on."""
        self.peak = self.now

    @contextmanager
    def follow_resizes(self) -> Iterator[None]:
        """Follow storages that are emptied and filled again, as FSDP does with gathered parameters."""
        resize = torch.UntypedStorage.resize_

        def followed(storage: Any, size: int) -> Any:
            out = resize(storage, size)
            if storage._cdata in self._sizes:
                self._set(storage._cdata, size)
            return out

        torch.UntypedStorage.resize_ = followed  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]

    def _set(self, key: int, size: int) -> None:
        self.now += size - self._sizes[key]
        self._sizes[key] = size
        self.peak = max(self.peak, self.now)

    def _forget(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


class StepRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """ComputeSegment and exchanges since it was entered; ``phase`` is set by whoever runs the step."""

    def __init__(self, allocation: Allocation, axes: dict[str, str], ranks_per_node: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase: Phase = "forward"
        self.work: list[ComputeSegment] = []
        self.exchanges: list[Exchange] = []
        self._allocation = allocation
        self._axes = axes
        self._per_node = ranks_per_node
        self._flops = self._moved = 0.0
        self._kernels = 0
        self._waits: list[int] = []
        self._open_phase: Phase = "forward"
        self._pending: dict[int, int] = {}  # storage that an exchange writes -> its index
        self._written: dict[int, int] = {}  # storage -> index of the work that wrote it last
        self._gathered_before = -1  # index of the work before the one that read the last all-gather

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # its local tensors come again
        out = func(*args, **(kwargs or {}))
        made = list(_tensors(out))
        for tensor in made:
            self._allocation.hold(tensor)
        inputs = list(_tensors((args, kwargs or {})))
        if func.namespace in _COLLECTIVES:
            self._collective(func, args, inputs, made)
        elif _reads(func):
            self._kernel(func, args, kwargs or {}, out, inputs, made)
        return out

    def finish(self) -> None:
        """Close the last piece of work."""
        self._close()

    def _kernel(self, func: Any, args: Any, kwargs: Any, out: Any, inputs: list[Tensor], made: list[Tensor]) -> None:
        if _BESIDE in func.__name__:
            for tensor in made:
                self._written[_key(tensor)] = max((self._written.get(_key(each), -1) for each in inputs), default=-1)
            return
        waits = sorted({self._pending.pop(_key(each)) for each in inputs if _key(each) in self._pending})
        if (waits or self.phase != self._open_phase) and self._kernels:
            self._close()
        self._open_phase = self.phase
        self._waits += waits
        if any(self.exchanges[each].kind == "all-gather" for each in waits):
            self._gathered_before = len(self.work) - 1
        self._flops += _flops(func, args, kwargs, out)
        self._moved += sum(each.nbytes for each in (*inputs, *made))
        self._kernels += 1
        for tensor in (*made, *_find_mutated_tensors(func, args, kwargs)):
            self._written[_key(tensor)] = len(self.work)

    def _collective(self, func: Any, args: Any, inputs: list[Tensor], made: list[Tensor]) -> None:
        name = func.__name__
        kind = next((kind for start, kind in _KINDS.items() if name.startswith(start)), None)
        if kind is None:
            return  # a barrier, or a wait, which changes nothing: readers wait by what they read
        self._close()
        group = _group(args)
        ranks = dist.get_process_group_ranks(group)
        after = max((self._written.get(_key(each), -1) for each in inputs), default=-1)
        if kind == "all-gather":
            after = max(after, self._gathered_before)
        index = len(self.exchanges)
        self.exchanges.append(
            Exchange(
                kind=kind,
                bytes=_size(kind, inputs, made, len(ranks)),
                ranks=len(ranks),
                axis=self._axes.get(group.group_name, "data"),
                nodes=len({rank // self._per_node for rank in ranks}),
                after=after,
            )
        )
        for tensor in (*inputs, *made):
            self._pending[_key(tensor)] = index

    def _close(self) -> None:
        if self._kernels:
            self.work.append(
                ComputeSegment(
                    phase=self._open_phase,
                    flops=self._flops,
                    moved_bytes=self._moved,
                    kernels=self._kernels,
                    waits=self._waits,
                )
            )
        self._flops, self._moved, self._kernels, self._waits = 0.0, 0.0, 0, []


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> float:
    """As torch counts them; and of fused attention on CPUs, which it does not count, two products and five backward."""
    if func.__name__.startswith("_scaled_dot_product_flash_attention_for_cpu"):
        backward = "backward" in func.__name__
        query, key = args[1:3] if backward else args[:2]
        *many, length, width = query.shape
        return float((10 if backward else 4) * math.prod(many) * length * key.shape[-2] * width)
    counter = flop_registry.get(func._overloadpacket)
    return float(counter(*args, **kwargs, out_val=out)) if counter is not None else 0.0


def _size(kind: Kind, inputs: list[Tensor], made: list[Tensor], ranks: int) -> int:
    """Bytes of the full vector; all-gathers and reduce-scatters hold it beside one worker's share."""
    sizes = [each.nbytes for each in (*inputs, *made)] or [0]
    if kind in ("all-gather", "reduce-scatter"):
        return max(max(sizes), min(sizes) * ranks)
    return sum(each.nbytes for each in inputs)


def _group(args: Any) -> Any:
    for each in args:
        if isinstance(each, torch.ScriptObject):
            return dist.ProcessGroup.unbox(each)
    names = [each for each in args if isinstance(each, str)]
    return getattr(distributed_c10d, "_resolve_process_group")(names[-1])  # noqa: B009  # not exported


def _reads(func: Any) -> bool:
    """Whether an operation runs a kernel: neither a view, nor a question about a tensor."""
    if func.namespace in ("prim", "profiler"):
        return False
    returns = func._schema.returns
    aliases = [each.alias_info for each in returns]
    return not returns or not all(each is not None and not each.is_write for each in aliases)


def _find_mutated_tensors(func: Any, args: Any, kwargs: Any) -> Iterator[Tensor]:
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _tensors(args[place] if place < len(args) else kwargs.get(argument.name))


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        yield from _tensors(tree.values())
    elif isinstance(tree, Iterable) and not isinstance(tree, str):
        for each in tree:
            yield from _tensors(each)
