"""Curves as others state them, to show beside measured ones; what reads their files is found by name.

A package adds a reader by an entry point in the group ``scalecurve.stated_curves``: a function of a path that returns
a tuple of ``StatedCurve``, or raises ValueError with the place of a mistake.
"""

from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Literal

from scalecurve_api.registry import Registry

Quantity = Literal["throughput", "speedup", "efficiency"]
READERS: Registry[FunctionType] = Registry("scalecurve.stated_curves", "reader of stated curves", FunctionType, {})


@dataclass(frozen=True)
class StatedCurve:
    """A curve as a file states it: values by number of workers."""

    network: str
    title: str
    batch_per_worker: int | None
    hardware: str
    published: str | None
    source: str
    quantity: Quantity
    points: tuple[tuple[int, float], ...]


def read_stated(path: Path) -> tuple[StatedCurve, ...]:
    """Read the curves of a file.

    Raises:
        ValueError: with the file and the place in it of what is wrong.
        RegistryError: no package is installed that reads such files.
    """
    name = next(iter(READERS.names()), "csv")
    curves: tuple[StatedCurve, ...] = READERS.get(name)(path)
    return curves
