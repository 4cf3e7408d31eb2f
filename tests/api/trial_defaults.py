"""The defaults that an older worker knows, of every field that a trial may have: ``trial_defaults.json``.

``make fix`` adds new fields. A default that is in the file stays: an older worker takes it where nothing is sent.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel

from scalecurve_api.model import Model
from scalecurve_api.programs.workload import PROGRAMS
from scalecurve_api.spec.trial import TrialSpec

PATH = Path(__file__).with_name("trial_defaults.json")


def text() -> str:
    """What the file must hold: what it holds, and fields that are new."""
    known = {**defaults(), **json.loads(PATH.read_text(encoding="utf-8"))}
    return json.dumps(known, indent=1, sort_keys=True) + "\n"


def defaults() -> dict[str, Any]:
    """The defaults of every field of a trial, by their paths on the wire."""
    return {path: default for part in parts() for path, default in part.items()}


def parts() -> list[dict[str, Any]]:
    """The defaults of a trial without its program's, and of each program."""
    of_programs = [dict(_defaults(PROGRAMS.get(program), "workload.")) for program in PROGRAMS.names()]
    return [dict(_defaults(TrialSpec)), *of_programs]


def _defaults(kind: type[BaseModel], path: str = "") -> list[tuple[str, Any]]:
    """Every field below a model that has a default, by its path on the wire."""
    found: list[tuple[str, Any]] = []
    for name, field in kind.model_fields.items():
        where = f"{path}{field.alias or name}"
        if not field.is_required():
            value = field.get_default(call_default_factory=True)
            own = (
                value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                if isinstance(value, Model)
                else value
            )
            found.append((where, json.loads(json.dumps(own))))
        for inner in _models(field.annotation):
            found += _defaults(inner, f"{where}.")
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, UnionType) or get_args(annotation):
        return [found for each in get_args(annotation) for found in _models(each)]
    return []
