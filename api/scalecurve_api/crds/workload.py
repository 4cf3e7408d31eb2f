"""The schema of ``workload``: every program's fields in one, because a structural schema has no variants.

An API server writes a default into every object that lacks the field. So only defaults that hold for every program
stay in the schema; a description tells the others.
"""

import json
from collections.abc import Sequence

from scalecurve_api.crds.structural import Schema, structural_schema
from scalecurve_api.programs.workload import DEFAULT_PROGRAM, PROGRAMS, Workload

_WIDEST = {"minimum": min, "minLength": min, "minItems": min, "maximum": max, "maxLength": max, "maxItems": max}


def workload_schema() -> Schema:
    """The structural schema of the workloads of all registered programs."""
    names = PROGRAMS.names()
    merged = _merged({name: structural_schema(PROGRAMS.get(name)) for name in names}, names, names)
    merged["description"] = " ".join((Workload.__doc__ or "").split())
    merged["default"] = {}
    merged["properties"]["program"] |= {
        "description": Workload.model_fields["program"].description,
        "enum": list(names),
        "default": DEFAULT_PROGRAM,
    }
    return merged


def _merged(schemas: dict[str, Schema], parents: Sequence[str], programs: Sequence[str]) -> Schema:
    """One schema that takes what any of them takes; ``parents`` are the programs that have what is around it."""
    first, *others = schemas.values()
    merged = dict(first)
    if "properties" in first:
        merged["properties"] = _merged_properties(schemas, programs)
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


def _merged_properties(schemas: dict[str, Schema], programs: Sequence[str]) -> Schema:
    names = dict.fromkeys(name for schema in schemas.values() for name in schema["properties"])
    merged = {}
    for name in names:
        owners = {p: schema["properties"][name] for p, schema in schemas.items() if name in schema["properties"]}
        merged[name] = _merged(owners, [*schemas], programs)
    return merged
