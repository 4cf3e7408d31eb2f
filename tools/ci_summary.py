"""What a CI run's tests were: the slowest, what was skipped and why, what failed, and which pytest did not end well.

    SCALECURVE_TEST_LOG=tests.jsonl make test
    python -m tools.ci_summary tests.jsonl [again.jsonl]

The second log is of `tools.ci_again`.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SLOWEST = 10
OUT_OF_TIME = "not run: the time for this run is used up"
ENDED_WELL = (0, 1)
"""pytest's exit codes after all tests ran: all passed, and some failed."""


def phases_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The phases of tests in a log, without what it says about sessions."""
    return (line for line in map(json.loads, lines) if "test" in line)


def outcomes_of(lines: Iterable[str]) -> dict[str, str]:
    """Each test's outcome by the phases of it: setup, call and teardown."""
    outcomes: dict[str, str] = {}
    for phase in phases_of(lines):
        if outcomes.get(phase["test"], "passed") == "passed":
            outcomes[phase["test"]] = phase["outcome"]
    return outcomes


def broken_sessions(lines: Iterable[str]) -> list[str]:
    """The sessions of pytest that began and never ended, or ended other than by tests that passed or failed."""
    begun: dict[str, str] = {}
    for line in map(json.loads, lines):
        if "session" in line:
            status = line.get("status")
            if status is None:
                begun[line["session"]] = "never ended"
            elif status in ENDED_WELL:
                begun.pop(line["session"], None)
            else:
                begun[line["session"]] = f"ended with {status}"
    return [f"{session}: {end}" for session, end in begun.items()]


def summary(lines: Sequence[str], again: Iterable[str] = ()) -> Iterator[str]:
    """The summary of a log of phases, and of one of the failed tests' second run."""
    seconds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for phase in phases_of(lines):
        seconds[phase["test"]] += phase["seconds"]
        if phase["outcome"] == "skipped":
            reasons[phase["why"].removeprefix("Skipped: ")] += 1
    outcomes = outcomes_of(lines)
    counts = Counter(outcomes.values())
    yield f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    yield f"the {SLOWEST} slowest tests:"
    yield from (f"  {spent:7.1f} s  {test}" for test, spent in seconds.most_common(SLOWEST))
    if reasons:
        yield "skipped:"
        yield from (f"  {count:4}  {reason}" for reason, count in reasons.most_common())
    flaky, failed = _failures(outcomes, again)
    yield from (f"FLAKE {test}: failed, and passed when run again alone" for test in flaky)
    if failed:
        yield "failed:"
        yield from (f"  {test}" for test in failed)
    if broken := broken_sessions(lines):
        yield "pytest itself did not end well:"
        yield from (f"  {session}" for session in broken)


def _failures(outcomes: Mapping[str, str], again: Iterable[str]) -> tuple[list[str], list[str]]:
    """The failed tests that passed again, and the others."""
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    passed = {test for test, outcome in outcomes_of(again).items() if outcome == "passed"}
    return sorted(failed & passed), sorted(failed - passed)


def main() -> int:
    """Print the summary; exit with 1 if a test failed, also alone, none ran, or a pytest did not end well."""
    first, second = (_lines(Path(name)) for name in (*sys.argv[1:], "")[:2])
    print("\n".join(summary(first, second)))
    outcomes = outcomes_of(first)
    _, failed = _failures(outcomes, second)
    return int(not outcomes or bool(failed) or bool(broken_sessions(first)))


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.is_file() else []


if __name__ == "__main__":
    sys.exit(main())
