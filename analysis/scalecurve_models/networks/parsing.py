"""Parse one layer; errors name the first problem in one line."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter, ValidationError

from scalecurve_api.text import did_you_mean
from scalecurve_models.networks.layer import AnyLayer, Layer, NetworkError

_TYPES: dict[str, type[Layer]] = {
    name: layer for layer in get_args(AnyLayer) for name in get_args(layer.model_fields["type"].annotation)
}
_LAYER: TypeAdapter[AnyLayer] = TypeAdapter(Annotated[AnyLayer, Field(discriminator="type")])


def parse_layer(entry: Mapping[str, Any]) -> AnyLayer:
    """A layer from its fields. Raises NetworkError with the layer, the field and what is allowed."""
    name = entry.get("name")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise NetworkError(f"layer {name}: unknown type {kind!r}{_suggestion(str(kind), _TYPES)}")
    try:
        return _LAYER.validate_python(dict(entry))
    except ValidationError as error:
        raise NetworkError(f"layer {name}: {_first(error, _TYPES[kind])}") from error


def _first(error: ValidationError, kind: type[Layer]) -> str:
    problem = error.errors(include_url=False)[0]
    # The first part of a location is the type: the branch of the union.
    field = str(problem["loc"][1]) if len(problem["loc"]) > 1 else "layer"
    if problem["type"] == "extra_forbidden":
        return f"unknown field {field!r}{_suggestion(field, kind.model_fields)}"
    if problem["type"] == "missing":
        return f"{field} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{field}: {problem['input']!r}: {message[0].lower()}{message[1:]}"


def _suggestion(name: str, allowed: Iterable[str]) -> str:
    names = sorted(allowed)
    near = did_you_mean(name, names)
    return f"; did you mean {near!r}?" if near else f"; expected one of {', '.join(names)}"
