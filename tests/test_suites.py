"""The ledger of suites: what is due is noted, what is overdue is refused, and a green run is recorded."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from tools import suites
from tools.landings import Landing
from tools.ledger import read_entries
from tools.suites import NotGreen, SuiteRun, green_run, notes, problems, record, text

COMMITS = [f"{number:040x}" for number in range(1, 8)]
LANDINGS = [Landing(number, commit, "2026-11-24") for number, commit in enumerate(COMMITS, start=1)]
NAMES = ("benchmarks", "cluster", "frameworks", "images", "integrations", "nodes")


def run(name: str = "cluster", landing: int = 7, **changed: object) -> SuiteRun:
    fields = {"date": date(2026, 11, 24), "passed": 2, "skipped": {}, "covers": ["*.md"], **changed}
    return SuiteRun.model_validate({"name": name, "commit": COMMITS[landing - 1], **fields})


def everything(landing: int) -> list[SuiteRun]:
    """All suites, of which the cluster's ran at this landing and the others now."""
    return [run(landing=landing), *(run(name) for name in NAMES if name != "cluster")]


@pytest.fixture
def changed_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The landings that changed a covered file, in a history that has the landings alone."""
    at: list[int] = []

    def changed(since: str, until: str = "", *, within: object) -> list[str]:
        first, last = COMMITS.index(since) + 1, COMMITS.index(until) + 1 if until else len(COMMITS) + 1
        return [f"{number}.md" for number in at if first < number <= last]

    monkeypatch.setattr(suites, "is_ancestor", lambda commit, of=COMMITS[-1]: commit <= of)
    monkeypatch.setattr(suites, "changed_paths", changed)
    return at


def test_a_change_since_the_last_landing_is_due_and_not_overdue(changed_at: list[int]) -> None:
    changed_at.append(8)
    assert list(problems(everything(7), LANDINGS)) == []
    assert list(notes([run()])) == ["due: make test-cluster, for 8.md changed since it was green"]


@pytest.mark.parametrize(
    ("green", "changed", "problem"),
    [
        (7, [], ""),
        (6, [7, 8], ""),
        (5, [6, 7], "cluster: 6.md changed up to landing 6, and it was not green since; "),
        (4, [5, 6], "cluster: 5.md and 1 more changed up to landing 6, and it was not green since; "),
        (4, [], ""),
        (3, [], "cluster: 4 landings since its last green run, allowed: 3; `make test-cluster`"),
    ],
)
def test_a_suite_is_overdue_by_landings(green: int, changed: list[int], problem: str, changed_at: list[int]) -> None:
    changed_at += changed
    found = list(problems(everything(green), LANDINGS))
    assert [line[: len(problem)] for line in found] == ([problem] if problem else [])


def test_what_cannot_be_is_named(changed_at: list[int]) -> None:
    broken = [run("cluster", commit="f" * 40), run("nodes", covers=["none/**"])]
    assert list(problems(broken, LANDINGS)) == [
        f"got the suites cluster, nodes; allowed: each of {', '.join(NAMES)} once",
        f"cluster: commit: got {'f' * 40}, allowed: a commit before HEAD",
        "nodes: covers: got 'none/**', which no file matches",
    ]


def log(*phases: tuple[str, str, str], commit: str = COMMITS[6], status: int = 0) -> list[str]:
    lines: list[dict[str, object]] = [{"session": "pytest 1", "commit": commit}]
    for test, suite, outcome in phases:
        why = "Skipped: no image" if outcome == "skipped" else ""
        lines.append({"test": test, "suite": suite, "outcome": outcome, "seconds": 1.0, "why": why})
    return [json.dumps(line) for line in [*lines, {"session": "pytest 1", "status": status}]]


GREEN = (
    ("tests/nodes/test_a.py::test_a", "nodes", "passed"),
    ("tests/nodes/test_a.py::test_b", "nodes", "skipped"),
    ("tests/images/test_b.py::test_c", "nodes", "passed"),
)


def test_a_green_run_is_recorded_by_its_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger, lines = tmp_path / "suites.toml", tmp_path / "log"
    before = [run(name, landing=1) for name in NAMES]
    ledger.write_text(text(before))
    assert read_entries(ledger, "suite", SuiteRun) == before
    lines.write_text("\n".join(log(*GREEN)))
    assert record("nodes", lines, ledger) == 0
    assert capsys.readouterr().out == "nodes: 1 passed and 1 skipped at 00000000\n"
    *others, nodes = read_entries(ledger, "suite", SuiteRun)
    assert others == before[:-1]
    assert nodes == run("nodes", passed=1, skipped={"no image": 1}, date=date.today())
    assert record("node", lines, ledger) == 2
    lines.unlink()
    assert record("nodes", lines, ledger) == 1


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (log(*GREEN, ("tests/nodes/test_a.py::test_d", "nodes", "failed")), "1 tests failed, .*::test_d for one"),
        (log(GREEN[1]), "no test of nodes that passed"),
        (log(*GREEN, status=2), "pytest 1: ended with 2"),
        (log(*GREEN, commit=f"{COMMITS[6]}-dirty"), "the tree had changes on top of 00000000"),
        (log(*GREEN) + log(*GREEN, commit=COMMITS[5]), "got runs of 2 commits, allowed: one"),
    ],
)
def test_what_is_no_green_run_of_one_commit_is_refused(lines: list[str], why: str) -> None:
    with pytest.raises(NotGreen, match=why):
        green_run("nodes", lines, ["*.md"])


def test_the_ledger_is_as_the_tool_writes_it() -> None:
    assert text(read_entries(suites.FILE, "suite", SuiteRun)) == suites.FILE.read_text()
