"""Hold the ledger of the suites that do not decide, `tests/suites.toml`, in order: each was green not long ago.

    python -m tools.suites                     # name what is overdue, and note what is due
    python -m tools.suites record NAME LOG     # NAME passed: LOG is the file of SCALECURVE_TEST_LOG

A suite is due as soon as a file that it covers has changed since its last green run: that is a note. It is overdue, and
`make check` is red, when that change is older than the last landing, or the run older than three landings.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from tools.ci_summary import broken_sessions, outcomes_of, phases_of
from tools.landings import Landing, changed_paths, history_is_complete, is_ancestor, read_landings
from tools.ledger import ROOT, LedgerEntry, LedgerError, read_entries

FILE = ROOT / "tests/suites.toml"
OLDEST = 3
"""Landings since the last green run."""
SuiteName = Literal["benchmarks", "cluster", "frameworks", "images", "integrations", "nodes"]
TARGETS = {"images": "make images test-nodes", "nodes": "make images test-nodes"}
HEADER = """\
# The last green run of each suite that does not decide on a landing. `python -m tools.suites record` writes
# it; `covers` is written by hand. CONTRIBUTING.md says when `make check` is red.
"""


class SuiteRun(LedgerEntry):
    """The last green run of a suite."""

    name: SuiteName
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    date: date
    passed: Annotated[int, Field(ge=0)]
    skipped: dict[str, int]
    """Reason → tests."""
    covers: Annotated[list[str], Field(min_length=1)]
    """Globs of the files whose change makes a run due."""

    @property
    def target(self) -> str:
        return TARGETS.get(self.name, f"make test-{self.name}")

    def changed(self, until: str = "") -> list[str]:
        """Covered files that changed since, up to a commit or the work tree."""
        return changed_paths(self.commit, until, within=[f":(glob){pattern}" for pattern in self.covers])


class NotGreen(ValueError):
    """Why a log is not a green run of a suite."""


def problems(runs: Sequence[SuiteRun], landings: Sequence[Landing]) -> Iterator[str]:
    """What is out of order, a line each."""
    names = [run.name for run in runs]
    if sorted(names) != sorted(get_args(SuiteName)):
        yield f"got the suites {', '.join(names)}; allowed: each of {', '.join(get_args(SuiteName))} once"
    for run in runs:
        for pattern in run.covers:
            if not any(ROOT.glob(pattern)):
                yield f"{run.name}: covers: got {pattern!r}, which no file matches"
        if not is_ancestor(run.commit):
            yield f"{run.name}: commit: got {run.commit}, allowed: a commit before HEAD"
            continue
        later = [landing for landing in landings if not is_ancestor(landing.commit, run.commit)]
        if len(later) > OLDEST:
            yield f"{run.name}: {len(later)} landings since its last green run, allowed: {OLDEST}; `{run.target}`"
        elif len(later) > 1 and (paths := run.changed(later[-2].commit)):
            yield (
                f"{run.name}: {_named(paths)} changed up to landing {later[-2].number}, and it was not green since; "
                f"`{run.target}`, and record the run"
            )


def notes(runs: Sequence[SuiteRun]) -> Iterator[str]:
    """The suites that are due."""
    for run in runs:
        if paths := run.changed():
            yield f"due: {run.target}, for {_named(paths)} changed since it was green"


def _named(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def green_run(name: SuiteName, lines: Sequence[str], covers: Sequence[str]) -> SuiteRun:
    """The run of a suite that a log of tests tells of. Raises `NotGreen`."""
    phases = [phase for phase in phases_of(lines) if _suite_of(phase) == name]
    outcomes = outcomes_of(json.dumps(phase) for phase in phases)
    counts = Counter(outcomes.values())
    commits = {line["commit"] for line in map(json.loads, lines) if line.get("commit")}
    if failed := sorted(test for test, outcome in outcomes.items() if outcome == "failed"):
        raise NotGreen(f"{len(failed)} tests failed, {failed[0]} for one")
    if not counts["passed"]:
        raise NotGreen(f"the log has no test of {name} that passed")
    if broken := broken_sessions(lines):
        raise NotGreen(broken[0])
    if len(commits) != 1:
        raise NotGreen(f"got runs of {len(commits)} commits, allowed: one")
    (commit,) = commits
    if commit.endswith("-dirty"):
        raise NotGreen(f"the tree had changes on top of {commit[:8]}: commit them, and run the suite again")
    reasons = Counter(phase["why"].removeprefix("Skipped: ") for phase in phases if phase["outcome"] == "skipped")
    return SuiteRun(
        name=name,
        commit=commit,
        date=date.today(),
        passed=counts["passed"],
        skipped=dict(reasons),
        covers=list(covers),
    )


def _suite_of(phase: Mapping[str, Any]) -> str:
    """Tests of images run in pods' machine, with those on nodes."""
    return "images" if phase["test"].startswith("tests/images/") else phase["suite"]


def text(runs: Sequence[SuiteRun]) -> str:
    """The ledger's text."""
    return HEADER + "".join(f"\n[[suite]]\n{_fields(run)}" for run in sorted(runs, key=lambda run: run.name))


def _fields(run: SuiteRun) -> str:
    skipped = ", ".join(f"{_quoted(reason)} = {count}" for reason, count in run.skipped.items())
    covers = "".join(f"    {_quoted(pattern)},\n" for pattern in run.covers)
    return (
        f'name = "{run.name}"\ncommit = "{run.commit}"\ndate = {run.date}\npassed = {run.passed}\n'
        f"skipped = {{{skipped}}}\ncovers = [\n{covers}]\n"
    )


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def record(name: str, log: Path, file: Path = FILE) -> int:
    """Write the run of a log into the ledger; return 1 if it was not green."""
    runs = {run.name: run for run in read_entries(file, "suite", SuiteRun)}
    known = next((run for run in runs.values() if run.name == name), None)
    if known is None:
        print(f"got the suite {name}, allowed: {', '.join(runs)}", file=sys.stderr)
        return 2
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    try:
        run = green_run(known.name, lines, known.covers)
    except NotGreen as why:
        print(f"not recorded: {why}", file=sys.stderr)
        return 1
    file.write_text(text([*(run for run in runs.values() if run is not known), run]), encoding="utf-8")
    print(f"{name}: {run.passed} passed and {sum(run.skipped.values())} skipped at {run.commit[:8]}")
    return 0


def check() -> int:
    """Name what is out of order, and note what is due; return 1 if something is out of order."""
    try:
        runs, landings = read_entries(FILE, "suite", SuiteRun), read_landings()
    except (LedgerError, ValueError) as error:
        print(error)
        return 1
    if not history_is_complete():
        print("skipped: ages of the suites' runs (a shallow clone, or none)")
        return 0
    found = list(problems(runs, landings))
    for line in (*(f"tests/suites.toml: {line}" for line in found), *notes(runs)):
        print(line)
    return int(bool(found))


def main(arguments: Sequence[str]) -> int:
    """Check the ledger, or record a run."""
    match arguments:
        case []:
            return check()
        case ["record", name, log]:
            return record(name, Path(log))
    print("usage: python -m tools.suites [record NAME LOG]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
