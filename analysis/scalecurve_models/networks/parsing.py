"""One layer of a tree, checked: the first thing that is wrong with it, in a line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter, ValidationError

from scalecurve_models.networks.layer import AnyLayer, Layer, NetworkError

_TYPES: dict[str, type[Layer]] = {
    name: layer for layer in get_args(AnyLayer) for name in get_args(layer.model_fields["type"].annotation)
}
_LAYER: TypeAdapter[AnyLayer] = TypeAdapter(Annotated[AnyLayer, Field(discriminator="type")])


def parse_layer(entry: Mapping[str, Any]) -> AnyLayer:
    """A layer from its fields. Raises NetworkError that names the layer, the field, what was given and is allowed."""
    name = entry.get("name")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise NetworkError(f"layer {name}: type {kind!r} is not known{_near(str(kind), _TYPES)}")
    try:
        return _LAYER.validate_python(dict(entry))
    except ValidationError as error:
        raise NetworkError(f"layer {name}: {_first(error, _TYPES[kind])}") from error


def _first(error: ValidationError, kind: type[Layer]) -> str:
    problem = error.errors(include_url=False)[0]
    # The first part of a location is the type, as pydantic names the branch of the union.
    field = str(problem["loc"][1]) if len(problem["loc"]) > 1 else "it"
    if problem["type"] == "extra_forbidden":
        return f"{field!r} is no field of {kind.model_fields['type'].default or 'it'}{_near(field, kind.model_fields)}"
    if problem["type"] == "missing":
        return f"{field} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{field}: {problem['input']!r}: {message[0].lower()}{message[1:]}"


def _near(given: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(names)}"
