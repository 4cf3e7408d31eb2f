"""The formats that can be imported: how each is recognized, and what reads it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scalecurve.importing import cloudai, mllog, nccl_tests, superbench, table_file, tensorboard, training_log
from scalecurve.importing.columns import Statements
from scalecurve.importing.reading import Reading, SourceError
from scalecurve.importing.text_file import read_text

Read = Callable[[Path, Statements], Sequence[Reading]]
_HEAD = 1 << 20


@dataclass(frozen=True)
class Format:
    """A kind of source; ``recognized`` is asked about its path and the beginning of its text.

    ``units`` gives how the columns of a table are read; other formats have units of their own.
    """

    name: str
    recognized: Callable[[Path, str], bool]
    read: Read
    units: Callable[[Path, Statements], Sequence[str]] = lambda path, statements: ()


def _by_text(recognized: Callable[[str], bool]) -> Callable[[Path, str], bool]:
    return lambda path, head: recognized(head)


def _by_path(recognized: Callable[[Path], bool]) -> Callable[[Path, str], bool]:
    return lambda path, head: recognized(path)


FORMATS = (
    Format("cloudai", _by_path(cloudai.recognized), cloudai.read),
    Format("tensorboard", _by_path(tensorboard.recognized), tensorboard.read),
    Format("nccl-tests", lambda path, head: nccl_tests.is_text(head) or nccl_tests.is_json(head), nccl_tests.read),
    Format("mllog", _by_text(mllog.recognized), mllog.read),
    Format("superbench", _by_text(superbench.recognized), superbench.read),
    *(
        Format(
            form.value,
            _by_text(partial(training_log.recognized, form=form)),
            partial(training_log.read, form=form),
        )
        for form in training_log.FORMATS
    ),
    Format("json", lambda path, head: head.lstrip()[:1] in ("[", "{"), table_file.read_json, table_file.units_of),
    Format("csv", lambda path, head: path.suffix.lower() in (".csv", ".tsv"), table_file.read_csv, table_file.units_of),
)
"""In the order in which they are tried: those that are surest of their own come first."""


def format_of(path: Path, name: str | None = None) -> Format:
    """The format of a source: the one that is named, or the first that recognizes it.

    Raises SourceError when none does.
    """
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    if name is not None:
        return next(each for each in FORMATS if each.name == name)
    head = "" if path.is_dir() else read_text(path)[:_HEAD]
    for each in FORMATS:
        if each.recognized(path, head):
            return each
    names = ", ".join(each.name for each in FORMATS)
    raise SourceError(f"{path}: its format was not recognized; state it with --format ({names})")
