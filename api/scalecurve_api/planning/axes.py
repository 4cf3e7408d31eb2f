"""Axes beside the worker count: a name such as ``precision`` or ``options.compile`` -> a field of the workload."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from scalecurve_api.model import Model, fields_by_name, model_in
from scalecurve_api.programs.workload import PROGRAMS, Workload
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.spec.scaling import Batch
from scalecurve_api.text import plain, spell_value

RESERVED = ("mode", "workers", "layout")
_COLLECTIONS = (list, dict)
_OPEN = ("env.NAME", "parameters.NAME")


def axes_of(model: type[Model]) -> Iterator[str]:
    """The fields that an axis can set: scalars, in the model or in models inside it."""
    for name, field in fields_by_name(model).items():
        kinds = {get_origin(part) for part in (field.annotation, *get_args(field.annotation))}
        if not kinds.isdisjoint(_COLLECTIONS):
            continue
        if (inner := model_in(field.annotation)) is not None:
            yield from (f"{name}.{axis}" for axis in axes_of(inner))
        else:
            yield name


def axis_names(programs: Iterable[object]) -> tuple[str, ...]:
    """Every axis of these programs; names of none are passed over."""
    known = [name for name in programs if isinstance(name, str) and name in PROGRAMS]
    workload = [axis for name in known for axis in axes_of(PROGRAMS.get(name))]
    own = (model for name in known for model in PROGRAMS.get(name).further_options())
    workload += [f"options.{axis}" for model in own for axis in axes_of(model)]
    batch = (f"batch.{axis}" for axis in axes_of(Batch) if not axis.startswith("ladder."))
    return tuple(dict.fromkeys((*workload, *batch)))


def open_axes(programs: Iterable[object]) -> tuple[str, ...]:
    """Mappings whose entries are axes by whatever name they have: variables, and parameters of a command."""
    known = [PROGRAMS.get(name) for name in programs if isinstance(name, str) and name in PROGRAMS]
    return (_OPEN[0], *([_OPEN[1]] if any("parameters" in kind.model_fields for kind in known) else []))


def _set(tree: dict[str, Any], path: Sequence[str], value: AxisValue) -> None:
    """Set a field inside others; what another axis or the workload set beside it stays."""
    *outer, last = path
    for name in outer:
        tree[name] = dict(tree.get(name) or {})
        tree = tree[name]
    tree[last] = value


def is_axis(name: str, names: Container[str]) -> bool:
    """Whether ``name`` may stand in ``spec.matrix``; ``env.NAME`` sets an environment variable."""
    outer, dot, inner = name.partition(".")
    return name in names or (bool(dot and inner) and (outer == "env" or f"{outer}.NAME" in names))


def resolve(workload: Workload, batch: Batch, axes: Mapping[str, AxisValue]) -> tuple[Workload, Batch]:
    """Write the axes' values into the workload and the batch.

    Raises:
        AxisError: for the first value that its field does not take.
    """
    if not axes:
        return workload, batch
    # Without defaults: the program itself may be an axis, and another one has other fields.
    set_fields = workload.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    tree: dict[str, Any] = {**set_fields, "batch": batch.wire()}
    for name, value in axes.items():
        outer, dot, inner = name.partition(".")
        if not dot:
            tree[outer] = value
        elif f"{outer}.NAME" in _OPEN:
            tree[outer] = {**tree.get(outer, {}), inner: spell_value(value) if outer == "env" else value}
        else:
            _set(tree, name.split("."), value)
    sizes = tree.pop("batch")
    try:
        return Workload.model_validate(tree), Batch.model_validate(sizes)
    except ValidationError as error:
        raise _axis_error(error, axes) from error


def same_value(first: AxisValue, second: AxisValue) -> bool:
    """Whether both mean the same: 2 and 2.0 do, 1 and true do not."""
    return first == second and isinstance(first, bool) == isinstance(second, bool)


class AxisError(ValueError):
    """A matrix value that its field does not take."""

    def __init__(self, name: str, value: AxisValue, expected: str) -> None:
        super().__init__(f"matrix.{name}: got {value!r}; expected {expected}")
        self.name, self.value, self.expected = name, value, expected


def _axis_error(error: ValidationError, axes: Mapping[str, AxisValue]) -> AxisError:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    for name, value in axes.items():
        if name == where or name.endswith(f".{where}") or where.startswith(f"{name}."):
            return AxisError(name, value, plain(first["msg"]))
    name, value = next(iter(axes.items()))
    return AxisError(name, value, f"{where}: {plain(first['msg'])}")
