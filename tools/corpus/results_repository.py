"""The files of a repository of MLPerf results: a checkout, a bare git repository, or an archive of either."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scalecurve.corpus.results_archive import archive_members, archive_revision, is_archive
from scalecurve.corpus.results_member import ResultFile, Selection
from scalecurve.corpus.schema import NOT_STATED, CorpusError
from scalecurve_api.text import count

MOST_PAGE_BYTES = 4 << 20
MOST_PAGES = 1000

_ROUND = re.compile(r"training_results_v(\d+\.\d+)")
# A repository of others: none of its settings may start a program, and no object is fetched.
_GIT = ("git", "-c", "protocol.allow=never", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_LICENSES = (
    ("Apache License", "Apache-2.0"),
    ("MIT License", "MIT"),
    ("BSD 3-Clause", "BSD-3-Clause"),
    ("Neither the name of the copyright holder nor", "BSD-3-Clause"),
)
_GIT_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


@dataclass(frozen=True)
class RepositoryOrigin:
    """What is known of a repository: the round in its name, its address, and the commit with its date."""

    name: str
    title: str
    url: str
    revision: str


def is_results_repository(path: Path) -> bool:
    """Whether a path is a checkout or a bare repository with ``SUBMITTER/results`` and ``SUBMITTER/systems``."""
    if not path.is_dir():
        return False
    if _is_git_folder(path):
        names = _git(path, "ls-tree", "-z", "-d", "-r", "--name-only", "HEAD", check=False).split(b"\0")
        folders = {name.decode("utf-8", "replace") for name in names}
        return any(f"{name.partition('/')[0]}/systems" in folders for name in folders if name.endswith("/results"))
    return any(_folders(each, ("results", "systems")) for each in _entries(path))


def members(path: Path, selection: Selection) -> Iterator[ResultFile]:
    """The systems, results and license of a repository.

    Args:
        path: A checkout, a bare git repository, or a zip or tar archive.
        selection: Counts what is read, and notes what is skipped.

    Raises:
        CorpusError: the path is none of these, cannot be read, or exceeds a limit.
    """
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder")
    if not path.is_dir():
        if not is_archive(path):
            raise CorpusError(f"{path}: expected a folder, a bare git repository, or a .zip, .tar or .tar.gz archive")
        return archive_members(path, selection)
    return _git_members(path, selection) if _is_git_folder(path) else _folder_members(path, selection)


def origin(path: Path) -> RepositoryOrigin:
    """What a repository says of itself; ``not stated`` where it does not.

    Args:
        path: As of ``members``.
    """
    folder = path if _is_git_folder(path) else path / ".git"
    revision, address = NOT_STATED, ""
    if path.is_dir() and folder.exists():
        line = _git(folder, "log", "-1", "--format=%cs, commit %H", check=False).decode().strip()
        address = _git(folder, "config", "--get", "remote.origin.url", check=False).decode("utf-8", "replace").strip()
        revision = line or NOT_STATED
    elif path.is_file():
        revision = archive_revision(path) or NOT_STATED
    published = _ROUND.search(address) or _ROUND.search(str(path.absolute()))
    if published is None:
        return RepositoryOrigin(path.name.partition(".")[0], path.name, NOT_STATED, revision)
    url = f"https://github.com/mlcommons/{published[0]}"
    return RepositoryOrigin(f"mlperf-{published[1]}", f"MLPerf Training {published[1]}, results", url, revision)


def text_files(path: Path, folder: str, suffix: str) -> dict[str, bytes]:
    """The files directly in one folder of a checkout or bare repository, by name; links are not followed.

    Args:
        path: The repository.
        folder: Relative to its root; empty for the root itself.
        suffix: What their names end in.

    Raises:
        CorpusError: the path is no folder, a file cannot be read, or there are more or larger files than the limits.
    """
    if not path.is_dir():
        raise CorpusError(f"{path}: no such file or folder")
    found: dict[str, bytes] = {}
    for name, size, read in _files_in(path, folder):
        if not name.endswith(suffix):
            continue
        if size > MOST_PAGE_BYTES:
            raise CorpusError(f"{path}: {name}: {size} bytes; expected at most {MOST_PAGE_BYTES >> 20} MiB")
        if len(found) == MOST_PAGES:
            raise CorpusError(f"{path}: more than {count(MOST_PAGES, 'file')} *{suffix} in {folder or 'its root'}")
        found[name] = read()
    return found


def license_of(path: Path) -> str:
    """The SPDX id of the license file at the root of a checkout or bare repository; ``not stated`` without one."""
    found = {name: read for name, size, read in _files_in(path, "") if 0 < size <= MOST_PAGE_BYTES}
    name = next((each for each in ("LICENSE", "LICENSE.md", "LICENSE.txt") if each in found), None)
    return spdx_id(found[name]()) if name else NOT_STATED


def spdx_id(data: bytes) -> str:
    """The SPDX id of a license's text; ``not stated`` of one that is not known."""
    text = " ".join(data[:4000].decode("utf-8", "replace").split())
    return next((spdx for words, spdx in _LICENSES if words in text), NOT_STATED)


def _files_in(path: Path, folder: str) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Name, size and reader of the regular files directly in a folder; names that are not UTF-8 are marked so."""
    if _is_git_folder(path):
        below = [f"{folder}/"] if folder else []
        for entry in _git(path, "ls-tree", "-z", "-l", "HEAD", *below, check=False).split(b"\0"):
            about, _, encoded = entry.partition(b"\t")
            if about.startswith((b"100644 blob ", b"100755 blob ")):
                _, _, digest, size = about.decode().split()
                name = encoded.decode("utf-8", "replace").rpartition("/")[2]
                yield name, int(size), partial(_git, path, "cat-file", "blob", digest)
        return
    try:
        for file in _entries(path / folder) if (path / folder).is_dir() else []:
            if file.is_file(follow_symlinks=False):
                name = os.fsencode(file.name).decode("utf-8", "replace")
                yield name, file.stat(follow_symlinks=False).st_size, Path(file.path).read_bytes
    except OSError as error:
        raise CorpusError(f"{error.filename or path}: cannot be read: {error.strerror}") from error


def _is_git_folder(path: Path) -> bool:
    return (path / "HEAD").is_file() and (path / "objects").is_dir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Folders and files of a folder by name; links are not followed."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.is_symlink()), key=lambda entry: entry.name)


def _folders(entry: os.DirEntry[str], names: tuple[str, ...]) -> bool:
    return entry.is_dir(follow_symlinks=False) and all(Path(entry.path, name).is_dir() for name in names)


def _folder_members(root: Path, selection: Selection) -> Iterator[ResultFile]:
    try:
        for file in _files(root, root, depth=4):
            name = file.relative_to(root).as_posix()
            if (below := selection.wanted(name)) is None:
                continue
            member = selection.read(below, file.lstat().st_size, file.read_bytes)
            if member is not None:
                yield member
    except OSError as error:
        raise CorpusError(f"{error.filename or root}: cannot be read: {error.strerror}") from error


def _files(folder: Path, root: Path, depth: int) -> Iterator[Path]:
    """Files at most ``depth`` folders deep, only below ``systems`` and ``results`` of a submitter."""
    for entry in _entries(folder):
        level = len(Path(entry.path).relative_to(root).parts)
        if not entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)
        elif level <= depth and entry.name != ".git" and (level != 2 or entry.name in ("systems", "results")):
            yield from _files(Path(entry.path), root, depth)


def _git_members(path: Path, selection: Selection) -> Iterator[ResultFile]:
    listed = _git(path, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
    with subprocess.Popen(
        [*_GIT, f"--git-dir={path}", "cat-file", "--batch"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(),
    ) as process:  # fmt: skip
        for entry in listed.split(b"\0"):
            about, _, encoded = entry.partition(b"\t")
            name = encoded.decode("utf-8", "replace")
            if not about.startswith((b"100644 blob ", b"100755 blob ")) or (below := selection.wanted(name)) is None:
                continue
            member = _blob(process, about.split()[2], below, selection)
            if member is not None:
                yield member
        assert process.stdin is not None
        process.stdin.close()


def _blob(process: subprocess.Popen[bytes], digest: bytes, name: str, selection: Selection) -> ResultFile | None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(digest + b"\n")
    process.stdin.flush()
    header = process.stdout.readline().split()
    if len(header) != 3:
        selection.skip(name, "listed, but not in the repository's objects")
        return None
    size, output = int(header[2]), process.stdout
    taken = False

    def read() -> bytes:
        nonlocal taken
        taken = True
        return output.read(size)

    member = selection.read(name, size, read)
    left = 1 if taken else size + 1
    while left > 0 and (piece := output.read(min(left, 1 << 20))):
        left -= len(piece)
    return member


def _git(path: Path, *arguments: str, check: bool = True) -> bytes:
    try:
        done = subprocess.run([*_GIT, f"--git-dir={path}", *arguments], capture_output=True, env=_environment())
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: is a git repository, and there is no git on PATH; use a checkout") from error
    if check and done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise CorpusError(f"{path}: git cannot read it: {last[0][:200]}")
    return done.stdout if done.returncode == 0 else b""


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **_GIT_ENVIRONMENT}
