"""Cases of a test framework, each with named figures in stated units -> rows of a table, a run each.

A case counts only where the framework says that it passed. Figures without a meaning here, such as a memory's size, are
skipped; where none has one, or two have the same, the message names them.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalecurve_api.text import count, few
from scalecurve_importing.columns import ColumnError, Statements, meaning
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.table_file import QUANTITIES, readings_of_rows


@dataclass(frozen=True)
class Figure:
    """A number as its framework names it."""

    name: str
    value: str
    unit: str


@dataclass(frozen=True)
class Case:
    """A test or an experiment; ``facts`` by field, ``variables`` as the framework names them, ``failed`` if it did."""

    place: str
    facts: Mapping[str, str]
    figures: Sequence[Figure]
    variables: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""


def readings_of_cases(path: Path, cases: Sequence[Case], statements: Statements) -> list[Reading]:
    """Read every case that passed; raises SourceError where none has a figure that can be read."""
    passed = [case for case in cases if not case.failed and case.figures]
    if not passed:
        why = few([f"{case.place}: {case.failed or 'no figure'}" for case in cases], 3) if cases else "it has no case"
        raise SourceError(f"{path}: no case passed with a figure of merit ({why})")
    statements = replace(statements, units={**_units(passed), **statements.units})
    read = _readable(path, passed, statements)
    names = {*read, *_FIELDS, *statements.columns.values(), *statements.factors}
    rows = [(case.place, {name: text for name, text in _row(case).items() if name in names}) for case in passed]
    rows = [(place, row) for place, row in rows if row.keys() & read]
    failed = [case for case in cases if case.failed]
    said = few([f"{case.place} ({case.failed})" for case in failed], 3)
    note = f"{count(len(failed), 'case')} skipped: {said}" if failed else ""
    readings = readings_of_rows(path, iter(rows), statements)
    return [replace(reading, notes=(*reading.notes, note)) if note else reading for reading in readings]


_FIELDS = ("workers", "nodes", "workers_per_node", "model", "global_batch", "batch_per_worker", "repetitions")


def _row(case: Case) -> dict[str, str]:
    return {**case.variables, **case.facts, **{figure.name: figure.value for figure in case.figures}}


def _units(cases: Sequence[Case]) -> dict[str, str]:
    return {figure.name: figure.unit for case in cases for figure in case.figures if figure.unit}


def _readable(path: Path, cases: Sequence[Case], statements: Statements) -> set[str]:
    """The figures that say how fast a run was; raises SourceError where there is none, or a choice."""
    spelled = dict.fromkeys((figure.name, figure.unit) for case in cases for figure in case.figures)
    chosen = {header for name, header in statements.columns.items() if name in QUANTITIES}
    fields: dict[str, dict[str, str]] = {}
    for name, unit in spelled:
        if name in statements.ignored or (chosen and name not in chosen):
            continue
        if (quantity := _quantity(path, name, statements)) is not None:
            fields.setdefault(quantity, {})[name] = _spell_with_unit(name, unit)
    if not fields:
        said = few([_spell_with_unit(*each) for each in spelled], 8)
        raise SourceError(
            f"{path.name}: none of its figures of merit is a throughput or a time ({said}); name one and its unit: "
            "--column throughput=FIGURE --unit throughput=samples/s"
        )
    for quantity, names in fields.items():
        if len(names) > 1:
            option = shlex.quote(f"{quantity}={next(iter(names))}")
            raise SourceError(
                f"{path.name}: {few(names.values(), 6)} are each a {quantity}: choose one with --column {option}"
            )
    return {name for names in fields.values() for name in names}


def _spell_with_unit(name: str, unit: str) -> str:
    return f"{name!r} ({unit or 'no unit'})"


def _quantity(path: Path, name: str, statements: Statements) -> str | None:
    try:
        meant = meaning(name, path.name, statements)
    except ColumnError:
        return None
    except SourceError:
        if name in statements.units and name not in statements.columns.values():
            return None  # a unit that no field has, such as GB/s
        raise
    return meant.name if meant and meant.name in QUANTITIES else None


def cells(tree: object) -> Iterator[tuple[str, str]]:
    """Yield the plain values of an object, as text."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield str(name), str(value)
