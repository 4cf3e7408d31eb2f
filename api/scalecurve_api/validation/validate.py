"""YAML text -> experiments, or every problem at once, with its line and what is allowed."""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from scalecurve_api.model import Model, fields_by_name, model_in
from scalecurve_api.problem import (
    NOTHING,
    Description,
    Path,
    Problem,
    ProblemCode,
    Violation,
    expected,
    one_of,
    only_with,
    required,
    unknown,
)
from scalecurve_api.programs.workload import DEFAULT_PROGRAM, PROGRAMS, Workload
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.text import did_you_mean, plain
from scalecurve_api.validation.document import Document, read_documents
from scalecurve_api.validation.foreign import foreign_problem
from scalecurve_api.validation.overlay import lay_over
from scalecurve_api.validation.redaction import secret_warnings
from scalecurve_api.validation.repair import Repair
from scalecurve_api.validation.rules import check

_MOST_ROUNDS = 5


@dataclass(frozen=True)
class Validated:
    """The valid experiments of a file, and the problems of the others.

    ``values`` are the documents that were checked: the file's, with the overlays merged into them. ``warnings`` are
    values that should not stand where they do: what looks like a secret.
    """

    experiments: tuple[ScalingExperiment, ...]
    problems: tuple[Problem, ...]
    values: tuple[Any, ...] = ()
    warnings: tuple[Problem, ...] = ()


def validate_text(text: str, file: str, overlays: Sequence[Document] = ()) -> Validated:
    """Check every document of a YAML text, with the overlays merged into it. Never raises on bad input."""
    documents, problems = read_documents(text, file)
    experiments: list[ScalingExperiment] = []
    values: list[Any] = []
    warnings: list[Problem] = []
    taken: dict[tuple[str | None, str], int | None] = {}
    if not documents and not problems:
        problems = [Problem(("document",), Description("an empty file"), expected("a ScalingExperiment"), file=file)]
    for alone in documents:
        document, refused = lay_over(alone, overlays)
        values.append(document.value)
        experiment, wrong = (None, refused) if refused else validate_document(document)
        if wrong and overlays:
            wrong = _attribute_problems(wrong, validate_document(alone)[1])
        if experiment is not None:
            wrong = [*wrong, *_same_name(experiment, document, taken)]
        problems = [*problems, *wrong]
        if experiment is not None and not wrong:
            experiments.append(experiment)
            warnings += [_locate_problem(warning, document) for warning in secret_warnings(experiment)]
    return Validated(tuple(experiments), tuple(problems), tuple(values), tuple(warnings))


def _same_name(
    experiment: ScalingExperiment, document: Document, taken: dict[tuple[str | None, str], int | None]
) -> Iterator[Problem]:
    """Report a second experiment of one name in a namespace: kubectl would silently keep the last."""
    name = (experiment.metadata.namespace, experiment.metadata.name)
    file, line = document.place(("metadata", "name"))
    if name in taken:
        at = f" on line {taken[name]}" if taken[name] else " above"
        violation = Violation(ProblemCode.duplicate, f"the name of the experiment{at}; use another")
        yield Problem(("metadata", "name"), name[1], violation, file=file, line=line)
    else:
        taken[name] = line


def _attribute_problems(problems: list[Problem], alone: list[Problem]) -> list[Problem]:
    """The problems, with the place from ``alone`` for those that the experiment has without its overlays too.

    A mapping in which both have written carries the overlay's line, which is right for what the overlay made wrong.
    """
    without = {(problem.field, repr(problem.got)): problem for problem in alone}
    return [without.get((problem.field, repr(problem.got)), problem) for problem in problems]


def validate_document(document: Document) -> tuple[ScalingExperiment | None, list[Problem]]:
    """Check one document: its shape, and the rules over several fields with what is wrong repaired; by line."""
    if not isinstance(document.value, dict):
        got = Description("an empty document") if document.value is None else document.value
        return None, [
            _locate_problem(Problem(("document",), got, expected("a ScalingExperiment (a mapping)")), document)
        ]
    if not {"apiVersion", "kind"} & document.value.keys():
        got = Description("neither apiVersion nor kind")
        both = expected(
            "a ScalingExperiment, which has both; pass an overlay beside its experiment with --overlay FILE"
        )
        return None, [_locate_problem(Problem(("document",), got, both), document)]
    if foreign := list(foreign_problem(document.value, document.file)):
        return None, [_locate_problem(problem, document) for problem in foreign]
    repair, wrong = Repair(document.value), list[Problem]()
    for _ in range(_MOST_ROUNDS):
        experiment, problems = _check_document(replace(document, value=repair.value))
        if experiment is not None and not problems and not wrong:
            return experiment, []
        placed = [
            _locate_problem(replace(problem, path=repair.original(problem.path)), document) for problem in problems
        ]
        new = [problem for problem in placed if problem not in wrong and not repair.explains(problem.path)]
        wrong += new
        before = copy.deepcopy(repair.value)
        repair.apply(problems, of_shape=experiment is None)
        if repair.value == before:
            break
    return None, sorted(wrong, key=lambda problem: (problem.file != document.file, problem.file, problem.line or 0))


def _check_document(document: Document) -> tuple[ScalingExperiment | None, list[Problem]]:
    """The experiment, if its shape is right, and what is wrong with its shape or else by the rules."""
    try:
        experiment = ScalingExperiment.model_validate(document.value)
    except ValidationError as error:
        return None, _once(list(_shape_problems(error, document)))
    return experiment, check(experiment)


def _once(problems: list[Problem]) -> list[Problem]:
    """The problems without a required field that stands there under a misspelled name."""
    meant = {(*problem.path[:-1], problem.suggestion) for problem in problems if problem.code is ProblemCode.unknown}
    return [problem for problem in problems if problem.code is not ProblemCode.required or problem.path not in meant]


def _locate_problem(problem: Problem, document: Document) -> Problem:
    file, line = document.place(problem.path)
    return replace(problem, file=file, line=line)


def _shape_problems(error: ValidationError, document: Document) -> Iterator[Problem]:
    """One problem for each field: the branches of a union are one choice, not several errors."""
    grouped: dict[Path, list[Mapping[str, Any]]] = {}
    for entry in error.errors(include_url=False):
        grouped.setdefault(_real_path(entry, document.value), []).append(dict(entry))
    for path, entries in grouped.items():
        got: object = NOTHING if entries[0]["type"] == "missing" else entries[0]["input"]
        yield Problem(path, got, _violation(path, entries, document.value))


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


def _violation(path: Path, entries: list[Mapping[str, Any]], document: Any) -> Violation:
    first = entries[0]
    model = _model_at(path[:-1], document)
    fields = fields_by_name(model) if model else {}
    if first["type"] == "extra_forbidden":
        name = str(path[-1])
        if path[:2] == ("spec", "workload") and (owners := _owners(path[2:])):
            return only_with(f"program {one_of(owners)}")
        if path[:-1] == ("spec", "workload", "options") and (owners := _strategies(document, name)):
            return only_with(f"strategy {one_of(owners)}")
        inside = _inside(name, fields)
        return replace(unknown("field", name, [name]), suggestion=inside) if inside else unknown("field", name, fields)
    if first["type"] == "missing":
        description = fields[str(path[-1])].description if path[-1] in fields else None
        return required(description or "")
    texts = list(dict.fromkeys(plain(str(entry["msg"])) for entry in entries))
    suggestion = None
    if isinstance(first["input"], str):
        words = [
            word for entry in entries for word in re.findall(r"'([^']+)'", str(entry.get("ctx", {}).get("expected")))
        ]
        suggestion = did_you_mean(first["input"], words)
    narrowed = path[:2] == ("spec", "workload") and first["type"] == "literal_error"
    program = document["spec"]["workload"].get("program", DEFAULT_PROGRAM) if narrowed else ""
    return expected(one_of(texts) + (f" for program {program}" if narrowed else ""), suggestion)


def _inside(name: str, fields: Mapping[str, FieldInfo]) -> str | None:
    """The field of that name in the only field beside it that has one: ``accuracy.epochs`` for ``epochs``."""
    models = {outer: model_in(field.annotation) for outer, field in fields.items()}
    places = [f"{outer}.{name}" for outer, model in models.items() if model and name in fields_by_name(model)]
    return places[0] if len(places) == 1 else None


def _model_at(path: Path, document: Any) -> type[Model] | None:
    model: type[Model] | None = ScalingExperiment
    program: type[Workload] | None = None
    for part in path:
        if model is None or isinstance(part, int):
            continue
        document = document.get(part) if isinstance(document, dict) else None
        field = fields_by_name(model).get(part)
        model = None if field is None else model_in(field.annotation)
        if model is Workload and isinstance(document, dict):
            name = document.get("program", DEFAULT_PROGRAM)
            model = program = PROGRAMS.get(name) if name in PROGRAMS else None
            strategy = document.get("strategy")
        elif part == "options" and program is not None and (named := program.strategy_named(strategy)) is not None:
            model = named.options
    return model


def _strategies(document: Any, option: str) -> list[str]:
    """The strategies of the document's program that have an option."""
    program = document["spec"]["workload"].get("program", DEFAULT_PROGRAM)
    registered = PROGRAMS.get(program).strategies if program in PROGRAMS else None
    known = registered.loadable() if registered is not None else {}
    return [name for name, strategy in known.items() if option in fields_by_name(strategy.options)]


def _owners(path: Path) -> list[str]:
    owners = []
    for program in PROGRAMS.built_in:
        model: type[Model] | None = PROGRAMS.get(program)
        for part in path[:-1]:
            field = fields_by_name(model).get(str(part)) if model else None
            model = model_in(field.annotation) if field else None
        if model is not None and path[-1] in fields_by_name(model):
            owners.append(program)
    return owners
