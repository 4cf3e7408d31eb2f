"""Sources -> a bundle: recognize each, read it, and write what they state together."""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import yaml
from pydantic import ValidationError

from scalecurve.bundle.record_file import EXPERIMENT_FILE, RECORD_FILE
from scalecurve.bundle.trial import TRIALS_FOLDER
from scalecurve_api.files import Within, open_regular
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.registry import RegistryError
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.text import few
from scalecurve_importing.columns import ColumnsError, Statements
from scalecurve_importing.compose import Composed, compose
from scalecurve_importing.foreign import named
from scalecurve_importing.importer import IMPORTERS, Importer
from scalecurve_importing.reading import OutOfRangeError, Reading, SourceError
from scalecurve_importing.text_file import read_text

_HEAD = 1 << 20
_NOTHING = Statements()


def import_bundle(
    sources: Sequence[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    name: str | None = None,
    file_format: str | None = None,
    statements: Statements | Sequence[Statements] = _NOTHING,
    dry_run: bool = False,
) -> Composed:
    """Make a bundle of numbers that were measured elsewhere.

    Args:
        sources: Files or folders with the numbers.
        into: Folder of the new bundle.
        name: Name of the experiment; the bundle's by default.
        file_format: Format of the sources; recognized by default.
        statements: What the sources do not say themselves: one for all of them, or one for each.
        dry_run: Write nothing.

    Returns:
        What was read, and the experiment made of it.

    Raises:
        SourceError: for what cannot be imported.
        OSError: when the bundle cannot be written.
    """
    bundle, paths = Path(into), [Path(source) for source in sources]
    each = [statements] * len(paths) if isinstance(statements, Statements) else statements
    refuse_unless_empty(bundle)
    readings: list[Reading] = []
    formats: dict[str, str] = {}
    units: list[str] = []
    unread: list[ColumnsError] = []
    counts: list[tuple[Path, set[int]]] = []
    for path, stated in zip(paths, each, strict=True):
        named_format = file_format or ("pattern" if stated.pattern or stated.patterns else None)
        formats[str(path)], importer = importer_of(path, named_format)
        try:
            with _refuse_out_of_range(str(path)):
                own = importer.read(path, stated)
            readings += own
            counts.append((path, {reading.workers for reading in own}))
            units += importer.units(path, stated)
        except ColumnsError as error:
            unread.append(error)
    if unread:
        raise ColumnsError(
            [column for error in unread for column in error.errors],
            [option for error in unread for option in error.missing],
        )
    _refuse_ranks(counts)
    with _refuse_out_of_range(few([path.name for path in paths], 3)):
        composed = compose(_name(name or bundle.resolve().name), readings)
    composed = replace(composed, formats=formats, units=tuple(dict.fromkeys(units)))
    if not dry_run:
        write_bundle(bundle, composed, paths)
    return composed


@contextmanager
def _refuse_out_of_range(place: str) -> Iterator[None]:
    """Numbers of others that no record can hold, and what is nested without end, are a SourceError of this place."""
    try:
        yield
    except OutOfRangeError as error:
        raise SourceError(f"{place}: {error}") from None
    except RecursionError:
        raise SourceError(f"{place}: is nested too deep") from None
    except (OverflowError, ZeroDivisionError, ValidationError) as error:
        raise SourceError(f"{place}: holds a number that is out of range: {str(error).splitlines()[0]}") from error


def _refuse_ranks(sources: Sequence[tuple[Path, set[int]]]) -> None:
    """Raises SourceError for files of several ranks of one run: each would count as a repetition."""
    ranks: dict[str, list[str]] = {}
    for path, workers in sources:
        if match := re.search(r"(?<![a-z])rank[-_.]?\d+", path.name, re.IGNORECASE):
            place = str(path.with_name(path.name.replace(match[0], "*")))
            ranks.setdefault(f"{place} {sorted(workers)}", []).append(path.name)
    if several := next((names for names in ranks.values() if len(names) > 1), None):
        raise SourceError(f"{few(several, 3)}: ranks of one run, and no repetitions: import one of them")


def _name(text: str) -> str:
    """A name for the experiment, of the letters that one may have."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "imported"


def refuse_unless_empty(bundle: Path) -> None:
    """Raise SourceError unless nothing, or an empty folder, is at the place of the bundle."""
    if bundle.is_symlink() or (bundle.exists() and (not bundle.is_dir() or any(bundle.iterdir()))):
        raise SourceError(f"{bundle}: exists and is not an empty folder; choose another --into")


def write_bundle(bundle: Path, composed: Composed, sources: Sequence[Path]) -> None:
    """Write all files; the ledger gets the sha256 of every file of the ``sources``.

    Raises SourceError when the folder is not empty, OSError when it cannot be written.
    """
    refuse_unless_empty(bundle)
    digests = _digests(sources)
    bundle.mkdir(parents=True, exist_ok=True)
    root = Within(bundle)
    text = _experiment_text(composed.experiment, digests).encode()
    (root / EXPERIMENT_FILE).write(text)
    stored = {}
    for record in composed.records:
        folder = root / TRIALS_FOLDER / record.trial.name
        folder.make()
        stored[record.trial.name] = record.stored()
        (folder / RECORD_FILE).write(stored[record.trial.name])
    ledger = LedgerFile(bundle)
    ledger.begin(text, make_plan(composed.experiment).trials, {})
    ledger.imported(stored, digests)


def _experiment_text(experiment: ScalingExperiment, sources: Iterable[str]) -> str:
    """``experiment.yaml``, under a line that names what it was made from."""
    tree = json.loads(experiment.model_dump_json(by_alias=True, exclude_none=True, exclude_unset=True))
    names = ", ".join(sources).encode("ascii", "backslashreplace").decode()
    return f"# Imported from {names}; measured elsewhere, not checked by ScaleCurve.\n" + yaml.safe_dump(
        tree, sort_keys=False, allow_unicode=True
    )


def _digests(sources: Sequence[Path]) -> dict[str, str]:
    """sha256 of every file of the sources, by its name, or its path below the folder that was named."""
    digests = {}
    for source in sources:
        files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
        for path in files:
            name = str(Path(source.name) / path.relative_to(source)) if source.is_dir() else path.name
            if name in digests:
                name = str(path)
            with open_regular(path) as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def format_of(path: Path) -> str:
    """Find the format of a source: the first that recognizes it, an installed package's before the project's own.

    Raises SourceError when none does.
    """
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    head = "" if path.is_dir() else read_text(path)[:_HEAD]
    for name, importer in _importers_to_try():
        if importer.recognized(path, head):
            return name
    if what := named(head):
        raise SourceError(f"{path}: {what}")
    names = ", ".join(IMPORTERS.names())
    begins = f", beginning {line[:60]!r}" if (line := next(filter(str.strip, head.splitlines()), "").strip()) else ""
    raise SourceError(
        f"{path}: its format was not recognized{begins}; state it with --format ({names}), read a log's lines with "
        "--pattern, or make a CSV file of it, a row for each run"
    )


def importer_of(path: Path, name: str | None = None) -> tuple[str, Importer]:
    """Find the name and the importer of a source's format: the one that is named, or the one that recognizes it.

    Raises SourceError when none does, or its package cannot be loaded.
    """
    if name is None:
        name = format_of(path)
    elif not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    try:
        return name, IMPORTERS.get(name)
    except RegistryError as error:
        raise SourceError(str(error)) from None


def _importers_to_try() -> Iterator[tuple[str, Importer]]:
    own = IMPORTERS.built_in
    for name in sorted(IMPORTERS.names(), key=lambda name: name in own):
        try:
            yield name, IMPORTERS.get(name)
        except RegistryError as error:  # of another package: the others still read what is theirs
            warnings.warn(str(error), stacklevel=2)
