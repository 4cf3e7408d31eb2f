"""A pydantic model -> the structural OpenAPI schema that Kubernetes takes for a custom resource.

Kubernetes wants a type at every level, no references, no unions of types, ``properties`` or ``additionalProperties``
but never both, and defaults that its own pruning would keep. pydantic writes JSON Schema 2020-12, which has all of
what is refused. The rules: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
custom-resource-definitions/#specifying-a-structural-schema

A workload's schema has every program's fields in one, because a structural schema has no variants. An API server
writes a default into every object that lacks the field. So only defaults that hold for every program stay in the
schema; a description tells the others.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from scalecurve_api.programs.workload import DEFAULT_PROGRAM, PROGRAMS, Workload

Schema = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

_KEPT = (
    *("type", "format", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
)


class SchemaError(ValueError):
    """A model that no structural schema can express."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a model in its camelCase form.

    Raises:
        SchemaError: for a union that folds into nothing Kubernetes knows.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _fold(schema, schema.get("$defs", {}))


def _fold(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    node = _inline_reference(node, definitions)
    folded: Schema = {}
    if "description" in node:
        folded["description"] = " ".join(str(node["description"]).split())
    folded |= {key: node[key] for key in _KEPT if key in node}
    folded |= _bounds(node)
    if "const" in node:
        folded["enum"] = [node["const"]]
    if "items" in node:
        folded["items"] = _fold(node["items"], definitions)
    if "properties" in node:
        folded["properties"] = {name: _fold(child, definitions) for name, child in node["properties"].items()}
    elif node.get("additionalProperties") is True:
        folded[PRESERVE] = True
    elif isinstance(node.get("additionalProperties"), Mapping):
        values = _fold(node["additionalProperties"], definitions)
        if _is_untyped(values):
            # Values of no known type would make the map invisible to CEL; an open object is compared as it is.
            folded[PRESERVE] = True
        else:
            folded["additionalProperties"] = values
    if "anyOf" in node:
        folded |= _union(node["anyOf"], definitions)
    if folded.keys() <= {"description"}:
        folded[PRESERVE] = True
    if node.get("default") is not None:
        # An object's default is written by the defaults of its fields.
        folded["default"] = {} if isinstance(node["default"], Mapping) else node["default"]
    return folded


def _inline_reference(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The node with its reference followed and a null branch dropped; what stands beside a reference wins."""
    plain = dict(node)
    if "anyOf" in plain:
        # A null is pruned by the API server where a field is not nullable: the same as leaving it out.
        branches = [branch for branch in plain["anyOf"] if branch.get("type") != "null"]
        plain["anyOf"] = branches
        if len(branches) == 1:
            plain = {**branches[0], **{key: value for key, value in plain.items() if key != "anyOf"}}
    if "$ref" in plain:
        target = definitions[str(plain.pop("$ref")).removeprefix("#/$defs/")]
        return _inline_reference({**target, **plain}, definitions)
    if "patternProperties" in plain:
        # Kubernetes cannot hold a map's keys to a pattern; what the values are it can.
        (plain["additionalProperties"],) = plain.pop("patternProperties").values()
    return plain


def _is_untyped(schema: Schema) -> bool:
    """CEL's "unknown type": no type, or a list or a map of such."""
    inside = schema.get("items") or schema.get("additionalProperties")
    return ("type" not in schema and PRESERVE in schema) or (inside is not None and _is_untyped(inside))


def _bounds(node: Mapping[str, Any]) -> Schema:
    """OpenAPI 3.0 says with a switch beside ``minimum`` what JSON Schema says with a number."""
    bounds: Schema = {}
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in node:
            bounds |= {limit: node[exclusive], exclusive: True}
    return bounds


def _union(branches: list[Mapping[str, Any]], definitions: Mapping[str, Any]) -> Schema:
    """Whole numbers and strings make Kubernetes' int-or-string; with booleans nothing is left to say but 'anything'."""
    parts = [_inline_reference(branch, definitions) for branch in branches]
    kinds = {part.get("type") for part in parts}
    if not kinds <= {"integer", "number", "string", "boolean"}:
        raise SchemaError(f"a union of {sorted(map(str, kinds))} has no structural form")
    if "boolean" in kinds or "string" not in kinds:
        return {PRESERVE: True}
    union: Schema = {INT_OR_STRING: True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    for part in parts:
        union |= {key: part[key] for key in ("minimum", "maximum", "minLength", "maxLength", "pattern") if key in part}
        if "const" in part:
            union["pattern"] = f"^{part['const']}$"
    return union


_WIDEST = {"minimum": min, "minLength": min, "minItems": min, "maximum": max, "maxLength": max, "maxItems": max}


def workload_schema() -> Schema:
    """The structural schema of the workloads of all registered programs."""
    names = PROGRAMS.names()
    merged = _merge_schemas({name: structural_schema(PROGRAMS.get(name)) for name in names}, names, names)
    for name in names:
        for model in PROGRAMS.get(name).further_options():
            fields = structural_schema(model)["properties"]
            # Other strategies would get an API server's default, too.
            bare = {key: {k: v for k, v in field.items() if k != "default"} for key, field in fields.items()}
            merged["properties"]["options"]["properties"] = {**bare, **merged["properties"]["options"]["properties"]}
    merged["description"] = " ".join((Workload.__doc__ or "").split())
    merged["default"] = {}
    merged["properties"]["program"] |= {
        "description": Workload.model_fields["program"].description,
        "enum": list(names),
        "default": DEFAULT_PROGRAM,
    }
    return merged


def _merge_schemas(schemas: dict[str, Schema], parents: Sequence[str], programs: Sequence[str]) -> Schema:
    """One schema that takes what any of them takes; ``parents`` are the programs that have what is around it."""
    first, *others = schemas.values()
    merged = dict(first)
    if "properties" in first:
        merged["properties"] = _merge_properties(schemas, programs)
        merged.pop("required", None)
    enums = [schema.get("enum") for schema in schemas.values()]
    merged.pop("enum", None)
    if None not in enums:
        merged["enum"] = list(dict.fromkeys(value for enum in enums for value in enum or ()))
    for bound, widest in _WIDEST.items():
        limits = [schema[bound] for schema in schemas.values() if bound in schema]
        merged.pop(bound, None)
        if len(limits) == len(schemas):
            merged[bound] = widest(limits)
    notes = []
    if len(schemas) < len(parents):
        notes.append(f"Only for program {' and '.join(schemas)}.")
    shared = len(schemas) == len(programs) and all(schema.get("default") == first.get("default") for schema in others)
    if not shared and (default := merged.pop("default", {})) not in ({}, []):
        notes.append(f"Default: {json.dumps(default)}.")
    if "description" in merged:
        merged["description"] = " ".join([merged["description"], *notes])
    return merged


def _merge_properties(schemas: dict[str, Schema], programs: Sequence[str]) -> Schema:
    names = dict.fromkeys(name for schema in schemas.values() for name in schema["properties"])
    merged = {}
    for name in names:
        owners = {p: schema["properties"][name] for p, schema in schemas.items() if name in schema["properties"]}
        merged[name] = _merge_schemas(owners, [*schemas], programs)
    return merged
