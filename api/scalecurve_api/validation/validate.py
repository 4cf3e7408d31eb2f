"""YAML text -> experiments, or every problem at once, each with its line and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from scalecurve_api.model import Model
from scalecurve_api.problem import NOTHING, Problem
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.text import did_you_mean, few, plain
from scalecurve_api.validation.document import Document, Path, read_documents, spell
from scalecurve_api.validation.overlay import lay_over
from scalecurve_api.validation.rules import check


@dataclass(frozen=True)
class Validated:
    """What one file holds: experiments that are right, and problems of those that are not.

    ``values`` are the documents that were checked: those of the file with the overlays merged into them.
    """

    experiments: tuple[ScalingExperiment, ...]
    problems: tuple[Problem, ...]
    values: tuple[Any, ...] = ()


def validate_text(text: str, file: str, overlays: Sequence[Document] = ()) -> Validated:
    """Check every document of a YAML text, with the overlays laid over it. Never raises on bad input."""
    documents, problems = read_documents(text, file)
    experiments: list[ScalingExperiment] = []
    values: list[Any] = []
    taken: dict[tuple[str | None, str], int | None] = {}
    if not documents and not problems:
        problems = [Problem(file, None, "document", "an empty file", "a ScalingExperiment")]
    for alone in documents:
        document, refused = lay_over(alone, overlays)
        values.append(document.value)
        experiment, found = (None, refused) if refused else validate_document(document)
        if found and overlays:
            found = _blamed(found, validate_document(alone)[1])
        if experiment is not None:
            found = [*found, *_same_name(experiment, document, taken)]
        problems = [*problems, *found]
        if experiment is not None and not found:
            experiments.append(experiment)
    return Validated(tuple(experiments), tuple(problems), tuple(values))


def _same_name(
    experiment: ScalingExperiment, document: Document, taken: dict[tuple[str | None, str], int | None]
) -> Iterator[Problem]:
    """Of two experiments of one name in a namespace kubectl keeps the last, and says nothing."""
    named = (experiment.metadata.namespace, experiment.metadata.name)
    place = document.place(("metadata", "name"))
    if named in taken:
        at = f", on line {taken[named]}" if taken[named] else ""
        yield Problem(*place, "metadata.name", named[1], f"another name: an experiment above has this one{at}")
    else:
        taken[named] = place[1]


def _blamed(found: list[Problem], alone: list[Problem]) -> list[Problem]:
    """Problems that an experiment has without its overlays too, as they are there.

    A mapping in which both have written carries the overlay's line, which is right for what the overlay made wrong.
    """
    own = {(problem.field, repr(problem.given)): problem for problem in alone}
    return [own.get((problem.field, repr(problem.given)), problem) for problem in found]


def validate_document(document: Document) -> tuple[ScalingExperiment | None, list[Problem]]:
    """Check one document: the shape first, and when that is right the rules over several fields."""
    if not isinstance(document.value, dict):
        given = "an empty document" if document.value is None else document.value
        return None, [Problem(document.file, document.line(()), "document", given, "a ScalingExperiment (a mapping)")]
    if not {"apiVersion", "kind"} & document.value.keys():
        allowed = "a ScalingExperiment, which has both; an overlay is given beside its experiment, as --overlay FILE"
        return None, [Problem(*document.place(()), "document", "neither apiVersion nor kind", allowed)]
    try:
        experiment = ScalingExperiment.model_validate(document.value)
    except ValidationError as error:
        return None, list(_shape_problems(error, document))
    return experiment, [
        Problem(*document.place(path), spell(path), given, allowed, suggestion)
        for path, given, allowed, suggestion in check(experiment)
    ]


def _shape_problems(error: ValidationError, document: Document) -> Iterator[Problem]:
    """One problem a field: the branches of a union are one choice, not several errors."""
    grouped: dict[Path, list[Mapping[str, Any]]] = {}
    for entry in error.errors(include_url=False):
        grouped.setdefault(_real_path(entry, document.value), []).append(dict(entry))
    for path, entries in grouped.items():
        allowed, suggestion = _allowed(path, entries)
        given: object = NOTHING if entries[0]["type"] == "missing" else entries[0]["input"]
        if entries[0]["type"] == "extra_forbidden":
            given = f"an unknown field {path[-1]!r}"
        yield Problem(*document.place(path), spell(path), given, allowed, suggestion)


def _real_path(entry: Mapping[str, Any], value: Any) -> Path:
    """The error's location without pydantic's names for branches of a union."""
    path: list[str | int] = []
    for part in entry["loc"]:
        inside = (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        )
        if not inside or (value is entry["input"] and entry["type"] != "missing"):
            if entry["type"] == "missing":
                path.append(part)
            break
        path.append(part)
        value = value[part]
    return tuple(path)


def _allowed(path: Path, entries: list[Mapping[str, Any]]) -> tuple[str, str | None]:
    first = entries[0]
    if first["type"] == "extra_forbidden":
        known = _fields_at(path[:-1])
        return f"one of {few(known, 60)}", did_you_mean(str(path[-1]), known)
    if first["type"] == "missing":
        return "required" + _description(path), None
    texts = list(dict.fromkeys(plain(str(entry["msg"])) for entry in entries))
    suggestion = None
    if isinstance(first["input"], str):
        words = [
            word for entry in entries for word in re.findall(r"'([^']+)'", str(entry.get("ctx", {}).get("expected")))
        ]
        suggestion = did_you_mean(first["input"], words)
    return " or ".join(texts), suggestion


def _model_at(path: Path) -> type[Model] | None:
    model: type[Model] = ScalingExperiment
    for part in path:
        if isinstance(part, int):
            continue
        field = next((f for f in model.model_fields.values() if f.alias == part), None)
        inner = None if field is None else _model_in(field.annotation)
        if inner is None:
            return None
        model = inner
    return model


def _model_in(annotation: Any) -> type[Model] | None:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg)) is not None), None)


def _fields_at(path: Path) -> list[str]:
    model = _model_at(path)
    return [field.alias for field in model.model_fields.values() if field.alias] if model else []


def _description(path: Path) -> str:
    model = _model_at(path[:-1])
    for field in model.model_fields.values() if model else ():
        if field.alias == path[-1] and field.description:
            return f": {field.description}"
    return ""
