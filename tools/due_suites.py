"""Name the long suites that cover what changed, as `.ci/suites.toml` lists them: those nearest to the change first.

    python -m tools.due_suites                    # changed by commits of the last 24 hours
    python -m tools.due_suites --base main        # changed since the branch left main
    python -m tools.due_suites --all

Each due suite is a line `NAME MINUTES COMMAND` on stdout; every suite's reason is a line on stderr. Where git cannot
say what changed, all are due. Standard library only: CI runs it before anything is installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from tools import ROOT

FILE = ROOT / ".ci/suites.toml"
SINCE = "24 hours ago"


@dataclass(frozen=True)
class LongSuite:
    """A suite that runs only when something that it covers has changed."""

    name: str
    command: str
    minutes: float
    paths: tuple[str, ...]
    """Globs, as git takes them."""


def read_suites() -> list[LongSuite]:
    """Read the table."""
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [LongSuite(name, **{**fields, "paths": tuple(fields["paths"])}) for name, fields in document.items()]


def list_changed_files(suite: LongSuite, base: str | None = None) -> list[str] | None:
    """Covered files that commits of the last day, or since ``base``, changed; None if git cannot say."""
    pathspecs = [f":(glob){path}" for path in suite.paths]
    changes = ["diff", f"{base}...HEAD"] if base else ["log", f"--since={SINCE}", "--format="]
    done = subprocess.run(
        ["git", *changes, "--name-only", "--no-renames", "--", *pathspecs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return sorted(set(done.stdout.split("\n")) - {""}) if done.returncode == 0 else None


def reason(changed: Sequence[str] | None) -> str:
    """Why a suite is due, or not."""
    if changed is None:
        return "due: what changed is unknown"
    if not changed:
        return "not run: no file that it covers has changed"
    return f"due: {changed[0]}" + (f" and {len(changed) - 1} more" if len(changed) > 1 else "") + " changed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the due suites."""
    parser = argparse.ArgumentParser(prog="python -m tools.due_suites")
    parser.add_argument("--base", help="take what changed since the branch left this revision")
    parser.add_argument("--all", action="store_true", help="take all suites")
    options = parser.parse_args(arguments)
    suites = read_suites()
    changed = {suite.name: None if options.all else list_changed_files(suite, options.base) for suite in suites}
    for suite in suites:
        print(f"{suite.name}: {'due: all are' if options.all else reason(changed[suite.name])}", file=sys.stderr)
    due = [suite for suite in suites if changed[suite.name] != []]
    for suite in sorted(due, key=lambda suite: -len(changed[suite.name] or ())):
        print(suite.name, f"{suite.minutes:g}", suite.command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
