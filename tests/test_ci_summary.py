from __future__ import annotations

import json

from tools.ci_summary import summary


def phase(test: str, outcome: str, seconds: float, why: str = "") -> str:
    return json.dumps({"test": test, "outcome": outcome, "seconds": seconds, "why": why})


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


def test_no_test_at_all() -> None:
    assert next(iter(summary([]))) == "0 passed, 0 failed, 0 skipped"
