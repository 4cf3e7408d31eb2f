"""Devices and links for predictions: data files with dates and sources, checked when they are read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Positive = Annotated[float, Field(gt=0, lt=1e15)]
Month = Annotated[str, BeforeValidator(lambda value: str(value)[:7]), Field(pattern=r"^\d{4}-\d{2}$")]


class HardwareError(ValueError):
    """A device, link or precision that is not known, or a file that describes none: one line."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    key: str
    title: str
    as_of: Month | None = None
    source: str
    note: str = ""


class Device(_Entry):
    """A device: peaks in GFLOPS by precision, memory bandwidth in GB/s, clock in MHz."""

    clock_mhz: Positive
    gflops: dict[Precision, Positive]
    memory_gb_s: Positive
    memory_gb: Positive | None = None
    gpu: bool = True
    released: Month | None = None

    def peak(self, precision: str = "fp32") -> float:
        """Peak in GFLOPS, two FLOPs a multiply-add. Raises HardwareError when the device has no such path."""
        for known, gflops in self.gflops.items():
            if known == precision:
                return gflops
        raise HardwareError(f"device {self.key}: no peak for {precision!r}; it has {', '.join(self.gflops)}")


class Link(_Entry):
    """A link: what one worker sends in one direction, in Gbit/s."""

    gbps: Positive

    @property
    def bytes_per_second(self) -> float:
        """Decimal bytes."""
        return self.gbps / 8 * 1e9


AnyEntry = TypeVar("AnyEntry", Device, Link)


@lru_cache(maxsize=1)
def devices() -> Mapping[str, Device]:
    """Every shipped device."""
    return _shipped("devices.yaml", Device)


@lru_cache(maxsize=1)
def links() -> Mapping[str, Link]:
    """Every shipped link."""
    return _shipped("links.yaml", Link)


def find_device(reference: str) -> Device:
    """A shipped device by its key, or the one of a YAML file of the same form. Raises HardwareError."""
    return _find(reference, "device", devices(), Device)


def find_link(reference: str) -> Link:
    """A shipped link by its key, the one of a YAML file, or a plain rate as ``25gbps``. Raises HardwareError."""
    rate = reference.lower().removesuffix("gbps")
    if rate != reference.lower() and rate.replace(".", "", 1).isdecimal() and float(rate) > 0:
        return Link(key=reference, title=f"{rate} Gbit/s", gbps=float(rate), source="as given")
    return _find(reference, "link", links(), Link)


def precision_of(name: str) -> Precision:
    """Check the name of a precision. Raises HardwareError."""
    for known in get_args(Precision):
        if name == known:
            found: Precision = known
            return found
    raise HardwareError(f"precision {name!r}: known are {', '.join(get_args(Precision))}")


def _shipped(file: str, kind: type[AnyEntry]) -> dict[str, AnyEntry]:
    return _entries((files("scalebench.predict") / "data" / file).read_text(encoding="utf-8"), file, kind)


def _find(reference: str, what: str, known: Mapping[str, AnyEntry], kind: type[AnyEntry]) -> AnyEntry:
    if reference in known:
        return known[reference]
    path = Path(reference)
    if path.suffix.lower() in (".yaml", ".yml"):
        try:
            entries = _entries(path.read_text(encoding="utf-8"), reference, kind)
        except (OSError, UnicodeDecodeError) as error:
            raise HardwareError(f"{reference}: cannot be read: {getattr(error, 'strerror', 'not UTF-8')}") from error
        if len(entries) != 1:
            raise HardwareError(f"{reference}: holds {len(entries)} entries; one {what} is wanted")
        return next(iter(entries.values()))
    raise HardwareError(f"{what} {reference!r} is not known{_hint(reference, known)}")


def _entries(text: str, file: str, kind: type[AnyEntry]) -> dict[str, AnyEntry]:
    try:
        tree: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise HardwareError(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise HardwareError(f"{file}: a mapping of names to entries is wanted")
    entries = {}
    for key, fields in tree.items():
        if not isinstance(fields, dict):
            raise HardwareError(f"{file}: {key}: a mapping is wanted")
        try:
            entries[str(key)] = kind.model_validate({"key": str(key), **fields})
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in problem["loc"])
            raise HardwareError(f"{file}: {key}: {field}: {problem['msg'].lower()}") from error
    return entries


def _hint(given: str, known: Iterable[str]) -> str:
    names = list(known)
    folded = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given.lower(), list(folded), n=1)
    hint = f"; did you mean {folded[near[0]]!r}?" if near else ""
    return f"{hint}; known are {', '.join(names)}"
