"""What a CI run's tests were: the slowest, what was skipped and why, and what failed.

SCALECURVE_TEST_LOG=tests.jsonl make test
python -m tools.ci_summary tests.jsonl
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

SLOWEST = 10


def summary(lines: Iterable[str]) -> Iterator[str]:
    """The summary of a log of phases: setup, call and teardown of each test."""
    seconds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    outcomes: dict[str, str] = {}
    for line in lines:
        phase = json.loads(line)
        seconds[phase["test"]] += phase["seconds"]
        if phase["outcome"] == "skipped":
            reasons[phase["why"].removeprefix("Skipped: ")] += 1
        if outcomes.get(phase["test"], "passed") == "passed":
            outcomes[phase["test"]] = phase["outcome"]
    counts = Counter(outcomes.values())
    yield f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    yield f"the {SLOWEST} slowest tests:"
    yield from (f"  {spent:7.1f} s  {test}" for test, spent in seconds.most_common(SLOWEST))
    if reasons:
        yield "skipped:"
        yield from (f"  {count:4}  {reason}" for reason, count in reasons.most_common())
    failed = sorted(test for test, outcome in outcomes.items() if outcome == "failed")
    if failed:
        yield "failed:"
        yield from (f"  {test}" for test in failed)


def main() -> int:
    """Print the summary of the log that is named; nothing if no test ran."""
    log = Path(sys.argv[1])
    print("\n".join(summary(log.read_text().splitlines() if log.exists() else [])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
