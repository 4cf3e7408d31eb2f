"""JSON schemas for kubeconform from what an API server publishes, so that no network is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.devcluster.rest import Rest

LOCATION = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
"""How kubeconform finds a file of `write_schemas`, below its folder."""


def write_schemas(rest: Rest, folder: Path) -> list[str]:
    """One closed schema for each kind that the server knows; the names of the files."""
    names = []
    for path in rest.call("GET", "/openapi/v3")["paths"]:
        if path.startswith(("api/v1", "apis/")) and path.count("/") in (1, 2):
            document = rest.call("GET", f"/openapi/v3/{path}")
            for name, schema in schemas(document):
                (folder / name).write_text(json.dumps(schema), encoding="utf-8")
                names.append(name)
    return names


def schemas(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """File name and schema of each kind of one group's document. A field that is not in a schema is refused."""
    components = {name: _closed(schema) for name, schema in document["components"]["schemas"].items()}
    for name, schema in components.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            if kind["kind"].endswith(("List", "Options")) or kind["kind"] == "WatchEvent":
                continue
            group = kind["group"].partition(".")[0]
            suffix = "-".join(part for part in (kind["kind"], group, kind["version"]) if part).lower()
            reference = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": components}}
            yield f"{suffix}.json", reference


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(part) for key, part in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed
