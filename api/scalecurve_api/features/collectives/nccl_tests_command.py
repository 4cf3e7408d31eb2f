"""Commands of nccl-tests: which program times which collective, and at which sizes.

https://github.com/NVIDIA/nccl-tests/blob/master/README.md
"""

import re
from collections.abc import Sequence
from typing import Any

from scalecurve_api.features.collectives.kinds import Collective

PROGRAMS = {
    Collective.all_reduce: "all_reduce_perf",
    Collective.all_gather: "all_gather_perf",
    Collective.reduce_scatter: "reduce_scatter_perf",
    Collective.all_to_all: "alltoall_perf",
    Collective.broadcast: "broadcast_perf",
    Collective.send_recv: "sendrecv_perf",
}
TYPES = {"float32": "float", "bfloat16": "bfloat16", "float16": "half"}
_SIZES = {
    "b": "minBytes", "minbytes": "minBytes", "e": "maxBytes", "maxbytes": "maxBytes", "f": "factor",
    "stepfactor": "factor", "n": "iterations", "iters": "iterations", "w": "warmup", "warmup_iters": "warmup",
}  # fmt: skip
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


def find_collective(command: str) -> Collective | None:
    """Name what a command times, by its path; None of one that is not nccl-tests'."""
    name = command.rpartition("/")[2].removesuffix("_mpi")
    return next((kind for kind, program in PROGRAMS.items() if program == name), None)


def sizes_of(options: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Read options as fields of ``workload.sizes``, and list those that have no field."""
    sizes: dict[str, Any] = {}
    left: list[str] = []
    types = {value: name for name, value in TYPES.items()}
    rest = list(options)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if (key := _SIZES.get(name)) and (number := _bytes(value)) is not None:
            sizes[key] = number
        elif name in ("d", "datatype") and value in types:
            sizes["dtype"] = types[value]
        elif name not in ("g", "ngpus", "t", "nthreads"):
            left.append(f"{word} {value}".strip() if not equals else word)
    return sizes, left


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,15})([KMG]?)(?:i?B)?", text.upper())
    return int(match[1]) << _UNITS[match[2]] if match else None
