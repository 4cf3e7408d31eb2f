"""Bytes that one rank hands to collectives in a step, by kind and by the dimension of the layout that they join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d
from torch.utils._python_dispatch import TorchDispatchMode

from scalecurve_api.features.layouts.facts import AxisTraffic

_KINDS = {
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "_reduce_scatter_base": "reduce-scatter",
    "allgather": "all-gather",
    "_allgather_base": "all-gather",
    "all_gather": "all-gather",
    "alltoall": "all-to-all",
    "all_to_all": "all-to-all",
    "broadcast": "broadcast",
    "send": "send",
}


_resolve: Any = vars(distributed_c10d)["_resolve_process_group"]  # no public way from a name to its group


class ObservedTraffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every collective of a step; ``names`` are the dimensions by process group."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names = names
        self._seen: dict[tuple[str, str, int], tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
            self._note(func, args, out)
        return out

    def _note(self, func: Any, args: Any, out: Any) -> None:
        name = func._schema.name.partition("::")[2]
        kind = next((kind for part, kind in _KINDS.items() if name.startswith(part)), None)
        group = _group(args)
        if kind is None or group is None:
            return
        size = _bytes(out if kind == "all-gather" and func.namespace != "c10d" else args[:1])
        ranks = dist.get_world_size(group)
        key = (self._names.get(group.group_name, "all ranks"), kind, ranks)
        calls, total = self._seen.get(key, (0, 0))
        self._seen[key] = (calls + 1, total + size)

    def rows(self) -> list[AxisTraffic]:
        """Return one row for each dimension and kind; groups of one rank send nothing and are omitted."""
        return [
            AxisTraffic(
                axis=axis,
                kind=kind,
                ranks=ranks,
                calls=calls,
                payload_bytes=size,
                wire_bytes=size * _wire_factor(kind, ranks),
            )
            for (axis, kind, ranks), (calls, size) in sorted(self._seen.items())
            if ranks > 1
        ]


def _wire_factor(kind: str, ranks: int) -> float:
    """Bytes that leave a rank for each of the payload: of the full array by a ring, as nccl-tests count it."""
    match kind:
        case "all-reduce":
            return 2 * (ranks - 1) / ranks
        case "send":
            return 1.0
        case _:
            return (ranks - 1) / ranks


def _group(args: Any) -> dist.ProcessGroup | None:
    for value in args:
        if isinstance(value, dist.ProcessGroup):
            return value
        if isinstance(value, torch.ScriptObject):
            return dist.ProcessGroup.unbox(value)
        if isinstance(value, str):  # of functional collectives: the group's name, after that of a sum
            try:
                group: dist.ProcessGroup = _resolve(value)
                return group
            except (LookupError, RuntimeError, ValueError):
                continue
    return None


def _bytes(values: Any) -> int:
    if isinstance(values, Tensor):
        return values.nbytes
    return sum(map(_bytes, values)) if isinstance(values, list | tuple) else 0
