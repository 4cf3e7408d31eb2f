"""What a CI run's tests were: the slowest, what was skipped and why, and what failed.

SCALECURVE_TEST_LOG=tests.jsonl make test
python -m tools.ci_summary tests.jsonl [again.jsonl]

The second log is of `tools.ci_again`.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

SLOWEST = 10
LEFT_OUT = "left out: the time for this run is used up"


def outcomes_of(lines: Iterable[str]) -> dict[str, str]:
    """Each test's outcome by the phases of it: setup, call and teardown."""
    outcomes: dict[str, str] = {}
    for line in lines:
        phase = json.loads(line)
        if outcomes.get(phase["test"], "passed") == "passed":
            outcomes[phase["test"]] = phase["outcome"]
    return outcomes


def summary(lines: Sequence[str], again: Iterable[str] = ()) -> Iterator[str]:
    """The summary of a log of phases, and of one of the failed tests' second run."""
    seconds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for line in lines:
        phase = json.loads(line)
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
    passed_alone, failed = _failures(outcomes, again)
    if passed_alone:
        yield "failed, and passed when run again alone (a defect of the test or of what it tests, to be found):"
        yield from (f"  {test}" for test in passed_alone)
    if failed:
        yield "failed:"
        yield from (f"  {test}" for test in failed)


def _failures(outcomes: Mapping[str, str], again: Iterable[str]) -> tuple[list[str], list[str]]:
    """The failed tests that passed again, and the others."""
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    passed = {test for test, outcome in outcomes_of(again).items() if outcome == "passed"}
    return sorted(failed & passed), sorted(failed - passed)


def main() -> int:
    """Print the summary; exit with 1 if a test failed, also alone, or was left out for time, or none ran."""
    first, second = (_lines(Path(name)) for name in (*sys.argv[1:], "")[:2])
    print("\n".join(summary(first, second)))
    _, failed = _failures(outcomes_of(first), second)
    return int(not first or bool(failed) or any(LEFT_OUT in json.loads(line)["why"] for line in first))


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.is_file() else []


if __name__ == "__main__":
    sys.exit(main())
