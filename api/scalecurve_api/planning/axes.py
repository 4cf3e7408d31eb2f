"""Axes beside the worker count: a name such as ``precision`` or ``options.compile`` -> a field of the workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from scalecurve_api.model import Model
from scalecurve_api.programs.data import Data
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.options import Options
from scalecurve_api.programs.workload import ParameterServer, Sizes, Transfer, Workload
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.spec.scaling import Batch
from scalecurve_api.text import plain

_NESTED: dict[str, type[Model]] = {
    "data": Data,
    "optimizer": Optimizer,
    "options": Options,
    "transfer": Transfer,
    "parameterServer": ParameterServer,
    "sizes": Sizes,
    "batch": Batch,
}
# Lists and mappings: the values of an axis are scalars.
_NOT_AXES = frozenset(
    {
        "data",
        "data.shape",
        "optimizer",
        "optimizer.milestones",
        "options",
        "transfer",
        "parameterServer",
        "sizes",
        "env",
        "command",
    }
)
RESERVED = ("mode", "workers", "layout")


def _wire_names(model: type[Model]) -> Iterator[str]:
    for field in model.model_fields.values():
        assert field.alias is not None
        yield field.alias


AXIS_NAMES: tuple[str, ...] = tuple(
    name
    for name in (
        *_wire_names(Workload),
        *(f"{outer}.{inner}" for outer, model in _NESTED.items() for inner in _wire_names(model)),
    )
    if name not in _NOT_AXES
)


def known_axis(name: str) -> bool:
    """Whether ``name`` may stand in ``spec.matrix``; ``env.NAME`` sets an environment variable."""
    return name in AXIS_NAMES or (name.startswith("env.") and len(name) > len("env."))


def resolve(workload: Workload, batch: Batch, axes: Mapping[str, AxisValue]) -> tuple[Workload, Batch]:
    """Write the axes' values into the workload and the batch.

    Raises:
        AxisError: for the first value that its field does not take.
    """
    if not axes:
        return workload, batch
    tree: dict[str, Any] = {**workload.wire(), "batch": batch.wire()}
    for name, value in axes.items():
        outer, dot, inner = name.partition(".")
        if not dot:
            tree[outer] = value
        else:
            tree[outer] = {**tree.get(outer, {}), inner: spell_value(value) if outer == "env" else value}
    sizes = tree.pop("batch")
    try:
        return Workload.model_validate(tree), Batch.model_validate(sizes)
    except ValidationError as error:
        raise _axis_error(error, axes) from error


def same_value(given: AxisValue, value: AxisValue) -> bool:
    """Whether both mean the same: 2 and 2.0 do, 1 and true do not."""
    return given == value and isinstance(given, bool) == isinstance(value, bool)


def spell_value(value: AxisValue) -> str:
    """A value as it is written in YAML: ``true``, not ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class AxisError(ValueError):
    """A matrix value that its field does not take."""

    def __init__(self, name: str, value: AxisValue, allowed: str) -> None:
        """Keep the axis, the value given and what is allowed."""
        super().__init__(f"matrix.{name}: {value!r}: {allowed}")
        self.name, self.value, self.allowed = name, value, allowed


def _axis_error(error: ValidationError, axes: Mapping[str, AxisValue]) -> AxisError:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    for name, value in axes.items():
        if name == where or name.endswith(f".{where}") or where.startswith(f"{name}."):
            return AxisError(name, value, plain(first["msg"]))
    name, value = next(iter(axes.items()))
    return AxisError(name, value, f"{where}: {plain(first['msg'])}")
