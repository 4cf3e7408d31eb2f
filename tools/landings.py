"""Know the landings, the commits that passed the gate, as `.ci/landings` lists them, and what changed since one.

A line there is a number, a commit and a date, oldest first; the first commit after a landing adds its line. The ledgers
of tests count ages in landings, so that no check depends on the day.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".ci/landings"
_LINE = re.compile(r"(\d+) ([0-9a-f]{40}) (\d{4}-\d\d-\d\d)")


@dataclass(frozen=True)
class Landing:
    """A commit that passed the gate."""

    number: int
    commit: str
    date: str


def read_landings(text: str | None = None) -> list[Landing]:
    """The landings, oldest first. Raises `ValueError` at a line that is not one."""
    landings = []
    lines = (FILE.read_text(encoding="utf-8") if text is None else text).splitlines()
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None or int(match[1]) != number:
            raise ValueError(f".ci/landings:{number}: got {line!r}, allowed: `{number} COMMIT YYYY-MM-DD`")
        landings.append(Landing(number, match[2], match[3]))
    if not landings:
        raise ValueError(".ci/landings: got no line, allowed: at least one landing")
    return landings


def git(*arguments: str) -> str | None:
    """What git prints; None if it fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def history_is_complete() -> bool:
    """Whether this is a clone with all its commits: in others nothing can be said of ancestors."""
    return (git("rev-parse", "--is-shallow-repository") or "").strip() == "false"


def is_ancestor(commit: str, of: str = "HEAD") -> bool:
    """Whether a commit is another one or before it."""
    return git("merge-base", "--is-ancestor", commit, of) is not None


def changed_paths(since: str, until: str = "", *, within: Sequence[str] = ()) -> list[str]:
    """The files below these git pathspecs that differ between two commits, or between one and the work tree."""
    commits = [since, until] if until else [since]
    return (git("diff", "--name-only", *commits, "--", *within) or "").splitlines()
