"""Kubernetes' own rules for schemas and objects, written anew from its documentation, to check what we generate.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
INT_OR_STRING_BRANCHES = [{"type": "integer"}, {"type": "string"}]
TYPES = {"object", "array", "string", "integer", "number", "boolean"}
GENERIC = {"description", "type", "default", "enum", "x-kubernetes-validations"}
OF_TYPE = {
    "object": {"properties", "additionalProperties", "required", "minProperties", "maxProperties", PRESERVE},
    "array": {"items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"},
    "string": {"format", "pattern", "minLength", "maxLength"},
    "integer": {"format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": {"format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "boolean": set(),
}
RULE_KEYS = {"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"}


def unstructural(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every way in which a schema is not structural."""
    kind = schema.get("type")
    if kind is None:
        allowed = GENERIC | {PRESERVE, INT_OR_STRING, "anyOf"} | OF_TYPE["integer"] | OF_TYPE["string"]
        if schema.get(INT_OR_STRING) is not True and schema.get(PRESERVE) is not True:
            yield f"{path}: no type"
        if "anyOf" in schema and (INT_OR_STRING not in schema or schema["anyOf"] != INT_OR_STRING_BRANCHES):
            yield f"{path}: anyOf {schema['anyOf']}"
    elif kind not in TYPES:
        yield f"{path}: type {kind!r}"
        return
    else:
        allowed = GENERIC | OF_TYPE[kind]
    yield from (f"{path}: {key} is not allowed here" for key in schema.keys() - allowed)
    yield from _keywords(schema, path)
    if kind == "object":
        yield from _object(schema, path)
    if kind == "array":
        yield from _array(schema, path)
    if "default" in schema:
        yield from (f"{path}.default: {said}" for said in disagreements(schema["default"], schema))


def _keywords(schema: dict[str, Any], path: str) -> Iterator[str]:
    for key in ("exclusiveMinimum", "exclusiveMaximum", PRESERVE, INT_OR_STRING):
        if key in schema and not isinstance(schema[key], bool):
            yield f"{path}: {key} is a switch, not {schema[key]!r}"
    if schema.get(PRESERVE) is False:
        yield f"{path}: {PRESERVE} may be true or left out"
    for rule in schema.get("x-kubernetes-validations", []):
        if not rule.keys() <= RULE_KEYS or not rule.get("rule") or not rule.get("message"):
            yield f"{path}: rule {rule}"
    if "pattern" in schema:
        re.compile(schema["pattern"])


def _object(schema: dict[str, Any], path: str) -> Iterator[str]:
    properties, values = schema.get("properties"), schema.get("additionalProperties")
    if properties and values is not None:
        yield f"{path}: properties beside additionalProperties"
    if values is not None and not isinstance(values, dict):
        yield f"{path}: additionalProperties is {values!r}"
    if not properties and not values and PRESERVE not in schema and path.count(".") > 1:
        yield f"{path}: everything inside would be pruned"
    yield from (
        f"{path}: required {name} is no property" for name in set(schema.get("required", [])) - {*(properties or {})}
    )
    for name, child in (properties or {}).items():
        yield from unstructural(child, f"{path}.{name}")
    if isinstance(values, dict):
        yield from unstructural(values, f"{path}.*")


def _array(schema: dict[str, Any], path: str) -> Iterator[str]:
    if "items" not in schema:
        yield f"{path}: no items"
        return
    yield from unstructural(schema["items"], f"{path}[]")
    if schema.get("x-kubernetes-list-type") == "map":
        properties = schema["items"].get("properties", {})
        for key in schema.get("x-kubernetes-list-map-keys", []) or [""]:
            if properties.get(key, {}).get("type") not in ("string", "integer", "boolean"):
                yield f"{path}: list key {key!r}"
            if key not in schema["items"].get("required", []) and "default" not in properties.get(key, {}):
                yield f"{path}: list key {key!r} may be missing"


def unbounded(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Places where a value may grow without limit (CEL's costs are estimated from the limits)."""
    kind = schema.get("type")
    if kind == "string" and not schema.keys() & {"maxLength", "enum", "format"}:
        yield path
    if kind == "array" and "maxItems" not in schema:
        yield path
    if "additionalProperties" in schema and "maxProperties" not in schema:
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from unbounded(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from unbounded(schema[key], f"{path}.{key}")


def disagreements(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """What an API server would refuse or drop; null fields count as left out, as it prunes them."""
    if INT_OR_STRING in schema:
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: neither a whole number nor a string"
            return
    elif not _is(value, schema.get("type")):
        yield f"{path}: {value!r} is not a {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, str):
        yield from _text(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, schema, path)
    elif isinstance(value, list):
        yield from _list(value, schema, path)
    elif isinstance(value, dict) and "type" in schema:
        yield from _mapping(value, schema, path)


def _is(value: Any, kind: str | None) -> bool:
    if kind is None:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    expected = {"object": dict, "array": list, "string": str, "integer": int, "number": int | float}
    return kind != "boolean" and isinstance(value, expected[kind])


def _text(value: str, schema: dict[str, Any], path: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {len(value)} characters"
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"


def _number(value: float, schema: dict[str, Any], path: str) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
        yield f"{path}: {value} is too small"
    if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
        yield f"{path}: {value} is too large"
    if value != value or value in (float("inf"), float("-inf")):
        yield f"{path}: {value} is no JSON"


def _list(value: list[Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{path}: {len(value)} items"
    for index, each in enumerate(value):
        yield from disagreements(each, schema["items"], f"{path}[{index}]")


def _mapping(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    properties, values = schema.get("properties", {}), schema.get("additionalProperties")
    present = {name: each for name, each in value.items() if each is not None}
    yield from (f"{path}.{name}: required" for name in schema.get("required", []) if name not in present)
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield f"{path}: {len(value)} fields"
    for name, each in present.items():
        if name in properties:
            yield from disagreements(each, properties[name], f"{path}.{name}")
        elif isinstance(values, dict):
            yield from disagreements(each, values, f"{path}.{name}")
        elif PRESERVE not in schema:
            yield f"{path}.{name}: unknown"
