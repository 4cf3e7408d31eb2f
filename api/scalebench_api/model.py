"""The base of every typed model: camelCase on the wire, snake_case in Python, unknown fields refused."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

Scalar = str | int | float | bool


class Model(BaseModel):
    """Immutable, strict about unknown fields; ``wire()`` gives what is written to YAML, JSON and Kubernetes."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    def wire(self) -> dict[str, Any]:
        """The camelCase JSON form, with what is None left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def canonical_json(value: object) -> str:
    """One spelling for one value: sorted keys, no spaces, ASCII. Digests are taken over this."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
