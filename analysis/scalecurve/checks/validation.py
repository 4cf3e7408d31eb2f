"""Validate experiment files with overlays: the experiments of each file, or all its errors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from scalecurve.bundle.packed import is_packed
from scalecurve.checks.pod_fields import check_pod_fields
from scalecurve_api.files import read_within
from scalecurve_api.problem import Description, Problem, ProblemCode, expected, malformed, printable, shorten
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation.document import MAX_BYTES, Document, read_documents, write_documents
from scalecurve_api.validation.fits import too_large
from scalecurve_api.validation.overlay import lay_over, read_overlay
from scalecurve_api.validation.validate import validate_text

if TYPE_CHECKING:
    from scalecurve.render.table import Table

from collections.abc import Iterator

from scalecurve_api.problem import forbidden
from scalecurve_api.programs.data import DataSource, TrainingData

_PATH = ("spec", "workload", "data", "path")
_VALIDATION = ("spec", "workload", "data", "validation")


def folder_problems(experiment: ScalingExperiment) -> Iterator[Problem]:
    """What is wrong with the folder of source image-folder; nothing where it is on another machine, or an axis."""
    data = experiment.spec.workload.data
    if not isinstance(data, TrainingData) or data.source is not DataSource.image_folder:
        return
    if data.path is None or any(axis.startswith("data.") for axis in experiment.spec.matrix or {}):
        return
    folder = Path(data.path).expanduser()
    if folder.is_dir():
        yield from _problems(folder, data)


def _problems(folder: Path, data: TrainingData) -> Iterator[Problem]:
    train, val, test = (_classes(folder / name) for name in ("train", "val", "test"))
    if data.validation is not None:
        if train and val:
            yield Problem(_VALIDATION, data.validation, forbidden(f"{folder} has train and val"))
        elif not train and not _classes(folder) - {"train", "val", "test"}:
            yield Problem(_PATH, data.path, expected("a folder with train/<class>/<image>, or with <class>/<image>"))
        return
    if not train:
        split = "a folder with train/<class>/<image> beside val or test"
        if _classes(folder):
            split += ", or data.validation set to the share of <class>/<image> to hold out"
        yield Problem(_PATH, data.path, expected(split))
    elif not val and not test:
        images = " (the images in test have no folders of classes, and so no labels)" if _files(folder / "test") else ""
        split = "a folder with val/<class>/<image> or test/<class>/<image> beside train, or data.validation set"
        yield Problem(_PATH, data.path, expected(f"{split} to the share to hold out{images}"))
    else:
        held = "val" if val else "test"
        for name in sorted((val or test) - train)[:1]:
            yield Problem(_PATH, data.path, expected(f"only classes of train: {held}/{name} is none of them"))


def _classes(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")}


def _files(folder: Path) -> bool:
    return folder.is_dir() and any(entry.is_file() for entry in folder.iterdir())


_MOST_BYTES = 4 * MAX_BYTES


@dataclass(frozen=True)
class Checked:
    """One file: its text, its valid experiments with warnings, and the problems of the others.

    With overlays the text is that of the merged experiments, written anew under a line that names the files.
    """

    file: str
    text: str
    experiments: tuple[ScalingExperiment, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


def validate(
    files: Iterable[str | os.PathLike[str]],
    overlays: Iterable[str | os.PathLike[str]] = (),
    device_gb: float | None = None,
) -> tuple[Checked, ...]:
    """Check every experiment file; an unreadable one is a problem of its own and does not stop the others.

    Args:
        files: Paths of experiments.
        overlays: Files merged in their order into every experiment; if one of them is wrong, only that is reported.
        device_gb: Memory of one device in GB, which every point's training must fit.

    Returns:
        The experiments of each file, or its problems.
    """
    laid = [_read_overlay(Path(file)) for file in overlays]
    wrong = tuple(overlay for overlay in laid if isinstance(overlay, Checked))
    checked = wrong or tuple(
        _check(Path(file), [overlay for overlay in laid if isinstance(overlay, Document)]) for file in files
    )
    return tuple(_add_memory_problems(each, device_gb) for each in checked)


def well_formed(
    file: str | os.PathLike[str], overlays: Iterable[str | os.PathLike[str]] = ()
) -> ScalingExperiment | None:
    """The one experiment of a file with its overlays whose fields are right, whatever the rules over them say."""
    laid = [_read_overlay(Path(overlay)) for overlay in overlays]
    text = _read(Path(file), "")
    if isinstance(text, Checked) or any(isinstance(overlay, Checked) for overlay in laid):
        return None
    documents, problems = read_documents(text, str(file))
    if problems or len(documents) != 1:
        return None
    merged, refused = lay_over(documents[0], [overlay for overlay in laid if isinstance(overlay, Document)])
    try:
        return None if refused else ScalingExperiment.model_validate(merged.value)
    except ValidationError:
        return None


def lacks_data(problem: Problem) -> bool:
    """Whether what is wrong is that no folder of data is named, which matters where data is read."""
    return problem.path == _PATH and problem.code is ProblemCode.required


def problem_table(checked: Iterable[Checked]) -> Table:
    """One row per problem."""
    from scalecurve.render.table import Column, Table  # Brings numpy, which checking a file does without.

    names = ("file", "line", "field", "code", "got", "message", "suggestion")
    columns = tuple(Column(name, name.title(), "count" if name == "line" else "text") for name in names)
    problems = [problem for file in checked for problem in file.problems]
    rows = [(p.file, p.line, p.field, p.code, shorten(p.got), p.message, p.suggestion) for p in problems]
    return Table("problems", "Problems", columns, tuple(rows))


def _add_memory_problems(checked: Checked, device_gb: float | None) -> Checked:
    problems = [
        replace(problem, file=checked.file)
        for experiment in checked.experiments
        for problem in too_large(experiment.spec, device_gb)
    ]
    return replace(checked, problems=(*checked.problems, *problems)) if problems else checked


def _check(file: Path, overlays: Sequence[Document]) -> Checked:
    text = _read(file, "a YAML file of experiments")
    if isinstance(text, Checked):
        return text
    validated = check_pod_fields(validate_text(text, str(file), overlays), text, str(file), overlays)
    folders = [replace(p, file=str(file)) for each in validated.experiments for p in folder_problems(each)]
    if folders:
        return Checked(str(file), text, (), (*validated.problems, *folders), validated.warnings)
    if not overlays or validated.problems:
        return Checked(str(file), text, validated.experiments, validated.problems, validated.warnings)
    merged = f"{file} with {' and '.join(overlay.file for overlay in overlays)} laid over it"
    # A bundle keeps this text, and goes where its maker's folders are nobody's business.
    header = (
        f"{_shorten_path(file)} with {' and '.join(_shorten_path(overlay.file) for overlay in overlays)} laid over it"
    )
    text = f"# {printable(header)}\n{write_documents(validated.values)}"
    # Together the files may be more than one may be.
    return Checked(str(file), text, validated.experiments, tuple(read_documents(text, merged)[1]), validated.warnings)


def _shorten_path(file: Path | str) -> str:
    """Return a path as it was given, or of an absolute one the file and its folder."""
    path = Path(file)
    return str(Path(*path.parts[1:][-2:])) if path.is_absolute() else str(path)


def _read_overlay(file: Path) -> Document | Checked:
    text = _read(file, "a YAML file with an overlay")
    if isinstance(text, Checked):
        return text
    overlay, problems = read_overlay(text, str(file))
    return overlay or Checked(str(file), "", (), tuple(problems))


def read_file(file: Path, text: str) -> tuple[str, Problem | None]:
    """A file's text, up to the largest size of an experiment; or what it is in place of ``text``, which is expected."""
    read = _read(file, text)
    return (read, None) if isinstance(read, str) else ("", read.problems[0])


def check_text(text: str, file: str) -> Checked:
    """Check a text that is in no file yet."""
    validated = check_pod_fields(validate_text(text, file), text, file)
    return Checked(file, text, validated.experiments, validated.problems, validated.warnings)


def _read(file: Path, text: str) -> str | Checked:
    """A file's text, up to the largest size of an experiment, or what it is instead of a text."""
    try:
        if str(file) == "-":
            got = "standard input, which is not read"
        else:
            with file.open("rb") as opened:
                data = read_within(opened, _MOST_BYTES)
            if data is not None:
                return data.decode()
            got = f"more than {_MOST_BYTES} bytes"
    except FileNotFoundError:
        missing = malformed(f"no such file; expected {text}")
        return Checked(str(file), "", (), (Problem((), None, missing, file=str(file)),))
    except IsADirectoryError:
        got = "a folder"
    except OSError as error:
        got = f"a file that cannot be read ({error.strerror})"
    except UnicodeDecodeError as error:
        packed = is_packed(file)
        got = (
            "a packed bundle, which `scalecurve report` opens" if packed else f"no UTF-8 text (byte {error.start + 1})"
        )
    return Checked(str(file), "", (), (Problem((), Description(got), expected(text), file=str(file)),))
