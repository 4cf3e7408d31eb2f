"""The catalog: what was read of every bundle in some folders, in SQLite, so that unchanged files are not read again.

It is a cache of its owner, not a record: it can be deleted at any time, and nobody else's is ever used, for its
numbers could not be checked. A catalog of another version, or one of ours that is damaged, is started anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.packed import is_packed
from scalecurve.bundle.problem import BundleError
from scalecurve.bundle.record_file import EXPERIMENT_FILE
from scalecurve.bundle.trial import TRIALS_FOLDER
from scalecurve_api.files import open_regular
from scalecurve_timelines.reading import BundleReading, PointReading, RepetitionReading, read

VERSION = 1
"""Of what is read and how: another one, and everything is read again."""
APPLICATION = 0x53437276
"""In the header of our files, whose place SQLite states (https://sqlite.org/fileformat2.html#database_header)."""
_HEADER_BYTES, _APPLICATION_AT = 100, slice(68, 72)
PACKED_SUFFIX = ".zip"
_TABLE = """
CREATE TABLE bundle (
    path TEXT PRIMARY KEY,  -- absolute
    stamp TEXT NOT NULL,    -- of the names, sizes and times of its files
    problem TEXT,           -- why it cannot be used; NULL for a bundle
    label TEXT, trials INTEGER, valid INTEGER, warnings TEXT);
CREATE TABLE point (
    path TEXT NOT NULL REFERENCES bundle ON DELETE CASCADE,
    experiment TEXT, session INTEGER, series TEXT, mode TEXT, workers INTEGER, layout TEXT, baseline INTEGER,
    unit TEXT, doubts TEXT, facts TEXT, repetitions TEXT);
CREATE INDEX point_of ON point (path);
"""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """A bundle that was found, as the catalog has it; `name` is its path below the folder that was named."""

    name: str
    path: Path
    reading: BundleReading


@dataclass(frozen=True)
class Contents:
    """The bundles of some folders: how many were read now and how many were known, and what is no bundle and why."""

    sources: tuple[Source, ...]
    read: int
    known: int
    unusable: tuple[tuple[str, str], ...]


def default_catalog() -> Path:
    """Return the catalog's path in the user's cache; ``SCALECURVE_CACHE`` names another folder."""
    cache = os.environ.get("SCALECURVE_CACHE")
    if not cache:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(home) / "scalecurve" / "history.sqlite"
    return Path(cache) / "history.sqlite"


def contents(
    folders: Sequence[str | os.PathLike[str]], catalog: Path | None = None, progress: Progress | None = None
) -> Contents:
    """Read every bundle at or below `folders`, by name; those that the catalog has unchanged are not read again.

    `catalog` is None for one in memory. Raises BundleError for a folder that does not exist or holds no bundle, and
    OSError where the catalog cannot be written.
    """
    places = list(_places(folders))
    with closing(_open(catalog)) as database:
        known, fresh, unusable, sources = 0, 0, [], []
        for done, (name, path) in enumerate(places, 1):
            stamp = _stamp(path)
            row = database.execute("SELECT stamp, problem FROM bundle WHERE path = ?", [str(path)]).fetchone()
            if row and row[0] == stamp:
                known += 1
                problem = row[1]
            else:
                problem = _read_into(database, path, stamp)
                fresh += 1
            if problem is None:
                sources.append(Source(name, path, _load_reading(database, path)))
            else:
                unusable.append((name, problem))
            if progress:
                progress(done, len(places))
        _forget(database, folders, {str(path) for _, path in places})
        database.commit()
    if not sources:
        raise BundleError(f"{', '.join(map(str, folders))}: no bundle found")
    return Contents(tuple(sources), fresh, known, tuple(unusable))


def _places(folders: Sequence[str | os.PathLike[str]]) -> Iterator[tuple[str, Path]]:
    """(name, absolute path) of what may be a bundle; no link is followed below the folders that were named."""
    seen: set[Path] = set()
    for folder in map(Path, folders):
        root = folder.resolve()
        if not root.exists():
            raise BundleError(f"{folder}: no such folder")
        for path in [root] if root.is_file() or _is_bundle(root) else sorted(_find_bundles(root)):
            if path not in seen:
                seen.add(path)
                yield path.name if path == root else path.relative_to(root).as_posix(), path


def _find_bundles(root: Path) -> Iterator[Path]:
    for home, folders, files in os.walk(root):
        here = Path(home)
        if here != root and _is_bundle(here):
            folders.clear()
            yield here
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = here / name
            if name.endswith(PACKED_SUFFIX) and not path.is_symlink() and is_packed(path):
                yield path


def _is_bundle(folder: Path) -> bool:
    return (folder / EXPERIMENT_FILE).is_file() and (folder / TRIALS_FOLDER).is_dir()


def _stamp(path: Path) -> str:
    """Changes with any file of the bundle that is read."""
    if path.is_file():
        state = path.stat()
        return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
    digest = hashlib.sha256()
    for home, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in ("report", "logs"))
        for name in sorted(files):
            try:
                state = os.lstat(os.path.join(home, name))
            except OSError:  # it is being written: the next call sees what became of it
                continue
            digest.update(f"{home}/{name} {state.st_size} {state.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _open(catalog: Path | None) -> sqlite3.Connection:
    if catalog is None:
        return _initialize(sqlite3.connect(":memory:"))
    catalog.parent.mkdir(parents=True, exist_ok=True)
    try:
        database = sqlite3.connect(catalog)
        if database.execute("PRAGMA user_version").fetchone() == (VERSION,):
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("SELECT count(*) FROM bundle JOIN point USING (path)").fetchone()
            return database
        if _is_foreign(database):
            database.close()
            raise FileExistsError(None, "not a catalog of ScaleCurve", str(catalog))
        database.close()
    except sqlite3.OperationalError as error:
        raise OSError(None, str(error), str(catalog)) from error
    except sqlite3.DatabaseError as error:  # no database, or a damaged one: only what says that it is ours is replaced
        with open_regular(catalog) as file:
            header = file.read(_HEADER_BYTES)
        if header and header[_APPLICATION_AT] != APPLICATION.to_bytes(4):
            raise FileExistsError(None, "not a catalog of ScaleCurve", str(catalog)) from error
    catalog.unlink(missing_ok=True)
    return _initialize(sqlite3.connect(catalog))


def _is_foreign(database: sqlite3.Connection) -> bool:
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return bool(tables) and tables != {"bundle", "point"}


def _initialize(database: sqlite3.Connection) -> sqlite3.Connection:
    database.executescript(_TABLE)
    database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute("PRAGMA foreign_keys = ON")
    return database


def _read_into(database: sqlite3.Connection, path: Path, stamp: str) -> str | None:
    """Read the bundle into the catalog; why that cannot be done, or None."""
    database.execute("DELETE FROM bundle WHERE path = ?", [str(path)])
    try:
        found = read(open_bundle(path))
    except BundleError as error:
        why = str(error).removeprefix(f"{path}: ")
        database.execute("INSERT INTO bundle (path, stamp, problem) VALUES (?, ?, ?)", [str(path), stamp, why])
        return why
    row = [str(path), stamp, None, found.label, found.trials, found.valid, json.dumps(found.warnings)]
    database.execute("INSERT INTO bundle VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    database.executemany(
        "INSERT INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(str(path), r.experiment, r.session, r.series, r.mode, r.workers, r.layout, r.baseline, r.unit),
                *(r.doubts, json.dumps(r.facts), json.dumps([asdict(repetition) for repetition in r.repetitions])),
            )
            for r in found.readings
        ],
    )
    return None


def _load_reading(database: sqlite3.Connection, path: Path) -> BundleReading:
    label, trials, valid, warnings = database.execute(
        "SELECT label, trials, valid, warnings FROM bundle WHERE path = ?", [str(path)]
    ).fetchone()
    columns = ("experiment", "session", "series", "mode", "workers", "layout", "baseline", "unit", "doubts")
    rows = database.execute(
        f"SELECT facts, repetitions, {', '.join(columns)} FROM point WHERE path = ? ORDER BY rowid", [str(path)]
    )
    readings = (
        PointReading(
            **dict(zip(columns, row, strict=True)),
            facts=json.loads(facts),
            repetitions=tuple(map(_repetition, json.loads(repetitions))),
        )
        for facts, repetitions, *row in rows
    )
    return BundleReading(label, trials, valid, tuple(json.loads(warnings)), tuple(readings))


def _repetition(tree: dict[str, object]) -> RepetitionReading:
    return RepetitionReading(**{**tree, "runs": tuple(tree["runs"])})  # type: ignore[arg-type]  # as it was written


def _forget(database: sqlite3.Connection, folders: Sequence[str | os.PathLike[str]], there: set[str]) -> None:
    """Drop what is gone from these folders; other folders' bundles stay for the next call with them."""
    roots = [str(Path(folder).resolve()) for folder in folders]
    for (path,) in database.execute("SELECT path FROM bundle").fetchall():
        inside = any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
        if inside and path not in there:
            database.execute("DELETE FROM bundle WHERE path = ?", [path])
