"""Plausibility of a record: a digest proves that it is unchanged, not that it makes sense.

The limits are far beyond anything measurable; within them no arithmetic overflows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from scalecurve.bundle.problem import FileError
from scalecurve_api.record.fact_kind import Bounds, Limits, known_kinds
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import count

_NS: Limits = (0, 1e18)
_COUNT: Limits = (0, 1e15)
_SOME: Limits = (1, 1e15)
_SECONDS: Limits = (0, 1e10)
_STEPS: Limits = (0, 1e12)
_SHARE: Limits = (0, 1)
_WORKERS: Limits = (1, 1e6)
_FLOPS: Limits = (1, 1e24)
_LIMITS: Bounds = {
    "trial.point": {
        **dict.fromkeys(("workers", "nodes", "workers_per_node"), _WORKERS),
        **dict.fromkeys(("global_batch", "batch_per_worker"), _SOME),
    },
    "trial": {"repetition": (0, 1e6)},
    "": {
        **dict.fromkeys(("flops_per_sample", "hardware_flops_per_sample", "peak_flops"), _FLOPS),
        "parameters": _COUNT,
        **dict.fromkeys(("foreign_load", "own_load", "stolen_load"), (0, 1e6)),
    },
    "windows": {
        "wall_ns": _NS,
        "samples": _COUNT,
        "sequences": _COUNT,
        "steps": _STEPS,
        "first_step": _STEPS,
        "energy_j": (0, 1e15),
    },
    "device_samples": {"sm_mhz_mean": (0, 1e6), "utilization_mean": _SHARE},
    "summary": {
        "throughput": (0, 1e24),
        "best_accuracy": _SHARE,
        "seconds_to_target": _SECONDS,
        "peak_memory_bytes": (0, 1e18),
    },
    "summary.exposed": {"with_s": _SECONDS, "without_s": _SECONDS},
}
"""Smallest and largest value of every number that is calculated with, by where it is."""


def check_plausible(record: TrialRecord) -> None:
    """Refuse impossible values; raises FileError with the first field that is out of range."""
    _check_all("", record, _LIMITS)
    for kind in known_kinds(list(record.facts)):
        _check_all(f"{kind.name}.", record.facts[kind.name], kind.bounds)
    point = record.trial.point
    if point.workers != point.nodes * point.workers_per_node:
        raise FileError(
            f"trial.point has {count(point.workers, 'worker')}, which its layout {point.layout} contradicts"
        )


def _check_all(where: str, value: Any, bounds: Bounds) -> None:
    for place, fields in bounds.items():
        for at, part in _follow_path(where, value, place.split(".") if place else ()):
            for name, limits in fields.items():
                low, high = limits(part) if callable(limits) else limits
                number = getattr(part, name)
                if isinstance(number, list):
                    for index, entry in enumerate(number):
                        _check(f"{at}{name}[{index}]", entry, low, high)
                else:
                    _check(f"{at}{name}", number, low, high)


def _check(field: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        name = ".".join(to_camel(part) if "_" in part else part for part in field.split("."))
        raise FileError(f"{name} is {value:.6g}, expected {low:g} to {high:g}")


def _follow_path(at: str, part: Any, path: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """(where it is, part) of what a path leads to: every entry of a list, and nothing where there is nothing."""
    if isinstance(part, list):
        for index, entry in enumerate(part):
            yield from _follow_path(f"{at.removesuffix('.')}[{index}].", entry, path)
    elif path and part is not None:
        yield from _follow_path(f"{at}{path[0]}.", getattr(part, path[0]), path[1:])
    elif part is not None:
        yield at, part
