"""Validate experiment files with overlays: the experiments of each file, or all its errors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scalecurve_api.problem import Problem, printable, shorten
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation.document import MAX_BYTES, Document, read_documents, write_documents
from scalecurve_api.validation.overlay import read_overlay
from scalecurve_api.validation.validate import validate_text

if TYPE_CHECKING:
    from scalecurve.render.table import Cell, Table

_MOST_BYTES = 4 * MAX_BYTES


@dataclass(frozen=True)
class Checked:
    """One file: its text, its valid experiments, and the problems of the others.

    With overlays the text is that of the merged experiments, written anew under a line that names the files.
    """

    file: str
    text: str
    experiments: tuple[ScalingExperiment, ...]
    problems: tuple[Problem, ...]


def validate(
    files: Iterable[str | os.PathLike[str]], overlays: Iterable[str | os.PathLike[str]] = ()
) -> tuple[Checked, ...]:
    """Check every file; an unreadable one is a problem of its own and does not stop the others.

    Overlays are merged in their order into every experiment. When one of them is wrong, only that is said.
    """
    laid = [_read_overlay(Path(file)) for file in overlays]
    wrong = tuple(overlay for overlay in laid if isinstance(overlay, Checked))
    return wrong or tuple(
        _check(Path(file), [overlay for overlay in laid if isinstance(overlay, Document)]) for file in files
    )


def problem_table(checked: Iterable[Checked]) -> Table:
    """One row per problem."""
    from scalecurve.render.table import Column, Table  # Brings numpy, which checking a file does without.

    names = ("file", "line", "field", "given", "allowed", "suggestion")
    columns = tuple(Column(name, name.title(), "count" if name == "line" else "text") for name in names)
    rows: list[tuple[Cell, ...]] = [
        (p.file, p.line, p.field, shorten(p.given), p.allowed, p.suggestion) for file in checked for p in file.problems
    ]
    return Table("problems", "Problems", columns, tuple(rows))


def _check(file: Path, overlays: Sequence[Document]) -> Checked:
    try:
        text = _read(file)
    except _Unreadable as error:
        return _unread(file, f"{error}", "a YAML file of experiments")
    validated = validate_text(text, str(file), overlays)
    if not overlays or validated.problems:
        return Checked(str(file), text, validated.experiments, validated.problems)
    merged = f"{file} with {' and '.join(overlay.file for overlay in overlays)} laid over it"
    text = f"# {printable(merged)}\n{write_documents(validated.values)}"
    # A bundle keeps this text: together the files may be more than one may be.
    return Checked(str(file), text, validated.experiments, tuple(read_documents(text, merged)[1]))


def _read_overlay(file: Path) -> Document | Checked:
    try:
        overlay, problems = read_overlay(_read(file), str(file))
    except _Unreadable as error:
        return _unread(file, f"{error}", "a YAML file with an overlay")
    return overlay or Checked(str(file), "", (), tuple(problems))


def _unread(file: Path, problem: str, allowed: str) -> Checked:
    return Checked(str(file), "", (), (Problem((), problem, allowed, file=str(file)),))


class _Unreadable(Exception):
    """A file that is not text; the message says what it is."""


def _read(file: Path) -> str:
    """A file's text, up to the largest size of an experiment."""
    if str(file) == "-":
        raise _Unreadable("standard input, which is not read")
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise _Unreadable(f"more than {_MOST_BYTES} bytes")
        return data.decode()
    except OSError as error:
        raise _Unreadable(f"a file that cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _Unreadable(f"a file that is not UTF-8 text (at byte {error.start + 1})") from error
