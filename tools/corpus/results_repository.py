"""The files of a git repository with published results, a checkout or a bare one, as of its last commit."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scalecurve_corpus.schema import NOT_STATED, CorpusError

_ROUND = re.compile(r"training_results_v(\d+\.\d+)")
_LICENSE = re.compile(r"LICENSE(\.md|\.txt)?")
_LICENSES = (
    ("Apache License", "Apache-2.0"),
    ("MIT License", "MIT"),
    ("BSD 3-Clause", "BSD-3-Clause"),
    ("Neither the name of the copyright holder nor", "BSD-3-Clause"),
)


@dataclass(frozen=True)
class RepositoryOrigin:
    """What is known of a repository: the round in its name, its address, its license, and the commit with its date."""

    name: str
    title: str
    url: str
    license: str
    revision: str


def files(path: Path, selects: Callable[[str], object]) -> Iterator[tuple[str, bytes | None]]:
    """Read files of a repository; links are no files.

    Args:
        path: A checkout or a bare repository.
        selects: Whether a name, relative to the root, is to be read.

    Yields:
        Name and content, in the order of the names; None for one that the clone does not have.

    Raises:
        CorpusError: the path is no git repository, or has no commit.
    """
    listed = [entry.partition(b"\t") for entry in _git(path, "ls-tree", "-r", "-z", "--full-tree", "HEAD").split(b"\0")]
    chosen = [
        (name, about.split()[2])
        for about, _, encoded in listed
        if about.startswith(b"100") and selects(name := encoded.decode("utf-8", "replace"))
    ]
    with subprocess.Popen(
        _command(path, "cat-file", "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name, digest in chosen:
            process.stdin.write(digest + b"\n")
            process.stdin.flush()
            yield name, _blob(process.stdout)
        process.stdin.close()


def origin(path: Path) -> RepositoryOrigin:
    """Return what a repository says of itself; ``not stated`` where it does not.

    Args:
        path: As of ``files``.
    """
    revision = _git(path, "log", "-1", "--format=%cs, commit %H").decode().strip()
    licenses = [spdx_id(data) for _, data in files(path, _LICENSE.fullmatch) if data is not None]
    spdx = licenses[-1] if licenses else NOT_STATED
    remotes = _git(path, "config", "--default", "", "--get", "remote.origin.url").decode("utf-8", "replace")
    published = _ROUND.search(remotes) or _ROUND.search(str(path.absolute()))
    if published is None:
        return RepositoryOrigin(path.name.partition(".")[0], path.name, NOT_STATED, spdx, revision)
    url = f"https://github.com/mlcommons/{published[0]}"
    return RepositoryOrigin(f"mlperf-{published[1]}", f"MLPerf Training {published[1]}, results", url, spdx, revision)


def spdx_id(data: bytes) -> str:
    """Return the SPDX id of a license's text; ``not stated`` of one that is not known."""
    text = " ".join(data[:4000].decode("utf-8", "replace").split())
    return next((spdx for words, spdx in _LICENSES if words in text), NOT_STATED)


def _blob(output: IO[bytes]) -> bytes | None:
    header = output.readline().split()
    if len(header) != 3:
        return None  # "DIGEST missing"
    data = output.read(int(header[2]))
    output.read(1)
    return data


def _git(path: Path, *arguments: str) -> bytes:
    done = subprocess.run(_command(path, *arguments), capture_output=True, env=_environment())
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise CorpusError(f"{path}: expected a git repository; git cannot read it: {last[0]}")
    return done.stdout


def _command(path: Path, *arguments: str) -> list[str]:
    folder = path / ".git" if (path / ".git").exists() else path
    return ["git", f"--git-dir={folder}", *arguments]


def _environment() -> dict[str, str]:
    """Environment in which a partial clone fetches nothing, and no variable names another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_NO_LAZY_FETCH": "1"}
