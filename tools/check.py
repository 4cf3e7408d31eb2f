"""Run every cheap check of the repository, two at a time, and show what only those that fail print.

    python -m tools.check

Goes on after a failure, so that one run names all of them; `make fix` repairs what a machine can.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
REPOSITORY = (
    "tests/test_docs.py",
    "tests/test_documentation_site.py",
    "tests/test_evidence.py",
    "tests/test_generated.py",
    "tests/test_imports.py",
    "tests/test_layout.py",
    "tests/test_leftovers.py",
    "tests/test_locks.py",
    "tests/test_project.py",
    "tests/analysis/test_studies.py",
    "tests/chart/test_job_rules.py",
    "tests/images/test_bake.py",
    "tests/images/test_containerfiles.py",
)
"""Tests that read the repository, and build or start nothing."""
NOTES = ("skipped: ",)
"""How lines begin that are shown of a check that passed, too."""
PYTEST = [sys.executable, "-m", "pytest", "-n", "0", "--dist", "no", "-q", "-p", "no:cacheprovider", *REPOSITORY]


@dataclass(frozen=True)
class RepositoryCheck:
    """One command, and what it must find: nothing."""

    name: str
    command: Sequence[str]
    folder: Path = ROOT


CHECKS = [  # the longest first: the others fit beside them
    RepositoryCheck("types", [str(BIN / "mypy")]),
    RepositoryCheck("pages, evidence, manifests", PYTEST),
    RepositoryCheck("format", [str(BIN / "ruff"), "format", "--check", "."]),
    RepositoryCheck("lint", [str(BIN / "ruff"), "check", "."]),
    RepositoryCheck("one-way imports", [str(BIN / "lint-imports")]),
    RepositoryCheck("structure", [sys.executable, "tools/lint/structure.py"]),
    RepositoryCheck("names", [sys.executable, "tools/lint/names.py"]),
    RepositoryCheck("wording", [sys.executable, "tools/lint/wording.py"]),
    RepositoryCheck("length of lines on pages", [sys.executable, "tools/lint/pages.py"]),
    RepositoryCheck("generated files", [sys.executable, "-m", "tools.generated"]),
    RepositoryCheck("claims on pages", [sys.executable, "-m", "tools.claims", "--no-pictures"]),
]
WORKFLOWS = RepositoryCheck("workflows", ["go", "tool", "actionlint"], ROOT / "tools/actionlint")


@dataclass(frozen=True)
class CheckResult:
    """What a check came to."""

    check: RepositoryCheck
    passed: bool
    seconds: float
    output: str


def run(check: RepositoryCheck) -> CheckResult:
    """Run one check to its end."""
    began = time.monotonic()
    done = subprocess.run(
        check.command, cwd=check.folder, capture_output=True, text=True, errors="replace", check=False
    )
    return CheckResult(check, done.returncode == 0, time.monotonic() - began, done.stdout + done.stderr)


def main() -> int:
    """Exit with 1 if a check fails."""
    checks = list(CHECKS)
    if shutil.which("go"):
        checks.append(WORKFLOWS)
    else:
        print("skipped: workflows, whose check is built with Go (not on PATH)")
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(run, checks))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        print(f"== {outcome.check.name}\n{outcome.output}")
    for outcome in outcomes:
        if outcome.passed:
            print("".join(line for line in outcome.output.splitlines(keepends=True) if line.startswith(NOTES)), end="")
    for outcome in outcomes:
        print(f"{outcome.seconds:6.1f} s  {outcome.check.name}{'' if outcome.passed else ': FAILED'}")
    print(f"{time.monotonic() - began:6.1f} s  in all")
    if failed:
        print("`make fix` repairs format, generated files and long lines; the rest is yours")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
