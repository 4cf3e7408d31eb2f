from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools.ci_summary import broken_sessions, main, summary


def phase(test: str, outcome: str, seconds: float, why: str = "") -> str:
    return json.dumps({"test": test, "outcome": outcome, "seconds": seconds, "why": why})


def session(status: int | None = None) -> str:
    return json.dumps({"session": "pytest 7: -n 0"} | ({} if status is None else {"status": status}))


def test_phases_are_added_up_and_reasons_counted() -> None:
    lines = [
        *(phase(f"quick{number}", "passed", 0.1) for number in range(12)),
        phase("slow", "passed", 3.0),
        phase("slow", "passed", 4.0),
        phase("broken", "passed", 0.5),
        phase("broken", "failed", 0.5),
        phase("broken", "passed", 0.0),
        phase("a", "skipped", 0.0, "Skipped: needs a GPU"),
        phase("b", "skipped", 0.0, "Skipped: needs a GPU"),
    ]
    first, _, slowest, second, *rest = summary(lines)
    assert first == "13 passed, 1 failed, 2 skipped"
    assert (slowest.split(), second.split()) == (["7.0", "s", "slow"], ["1.0", "s", "broken"])
    assert rest[8:] == ["skipped:", "     2  needs a GPU", "failed:", "  broken"]


def test_a_test_that_passed_again_is_named_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = {
        "tests": [phase("a", "failed", 1.0), phase("b", "failed", 1.0), phase("c", "passed", 1.0)],
        "again": [phase("a", "passed", 1.0)],
    }
    for name, lines in logs.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.setattr(sys, "argv", ["ci_summary", str(tmp_path / "tests"), str(tmp_path / "again")])
    assert main() == 1
    *_, flake, _, failed = capsys.readouterr().out.splitlines()
    assert flake.startswith("FLAKE a: ")
    assert failed == "  b"
    with (tmp_path / "again").open("a") as file:
        file.write(phase("b", "passed", 1.0) + "\n")
    assert main() == 0
    with (tmp_path / "again").open("a") as file:
        file.write(phase("b", "failed", 0.0) + "\n")
    assert main() == 1, "its teardown failed"


def test_a_session_that_did_not_end_well_is_named() -> None:
    assert broken_sessions([session(), session(1)]) == []
    assert broken_sessions([session()]) == ["pytest 7: -n 0: never ended"]
    assert broken_sessions([session(), session(2)]) == ["pytest 7: -n 0: ended with 2"]


def test_no_test_at_all() -> None:
    assert next(iter(summary([]))) == "0 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([phase("a", "passed", 1.0), phase("b", "skipped", 0.0, "Skipped: needs a GPU")], 0),
        ([phase("a", "passed", 1.0), phase("b", "failed", 1.0)], 1),
        ([session(), phase("a", "passed", 1.0), session(0)], 0),
        ([session(), phase("a", "passed", 1.0)], 1),
        ([session(), phase("a", "passed", 1.0), session(3)], 1),
        ([session(), session(5)], 1),
        ([], 1),
    ],
)
def test_a_run_that_proves_nothing_fails(
    lines: list[str], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "tests.jsonl"
    log.write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.setattr(sys, "argv", ["ci_summary", str(log)])
    assert main() == status
