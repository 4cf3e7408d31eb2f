"""Give failed tests on real processes a second look: alone, in a fresh process, on a quiet machine.

    python -m tools.ci_again tests.jsonl again.jsonl

A test in one process fails once and for all, and so do a test that is new or changed since the last landing, and more
tests than a machine's hiccups explain. Whoever passes the
second time is still named, by `tools.ci_summary`, and gets an entry in tests/flaky.toml, which is printed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tools import flaky
from tools.new_tests import is_among, since_the_last_landing

AT_MOST = 5


@dataclass(frozen=True)
class FailedTest:
    """A test of which a phase failed."""

    real: bool
    said: str


def failed_tests(lines: Iterable[str]) -> dict[str, FailedTest]:
    """The failed tests by name, each with its first failure."""
    failed: dict[str, FailedTest] = {}
    for phase in map(json.loads, lines):
        if phase.get("outcome") == "failed":
            failed.setdefault(phase["test"], FailedTest(phase["real"], phase["said"]))
    return dict(sorted(failed.items()))


def refusal(failed: Mapping[str, FailedTest], new: Set[str]) -> str:
    """Why these tests get no second look; empty if they do."""
    in_process = [name for name, test in failed.items() if not test.real]
    if in_process:
        return f"no second look: {in_process[0]} starts no process, so it fails on any machine"
    if changed := [name for name in failed if is_among(name, new)]:
        return f"no second look: {changed[0]} is new or changed since the last landing, and must pass every time"
    if len(failed) > AT_MOST:
        return f"no second look: {len(failed)} tests failed, and at most {AT_MOST} are run again"
    return ""


def passed_again(tests: Sequence[str], log: Path) -> list[str]:
    """Run each test in a pytest of its own; return those that passed."""
    environment = {**os.environ, "SCALECURVE_TEST_LOG": str(log)}
    command = [sys.executable, "-m", "pytest", "-n", "0", "--dist", "no", "-p", "no:cacheprovider"]
    return [test for test in tests if not subprocess.run([*command, test], env=environment, check=False).returncode]


def main() -> int:
    """Exit with 0 if no test failed, or each one passes now."""
    log, again = (Path(name) for name in sys.argv[1:])
    failed = failed_tests(log.read_text().splitlines())
    if why := refusal(failed, since_the_last_landing() if failed else set()):
        print(why)
        return 1
    flakes = passed_again(list(failed), again)
    if flakes:
        print("flakes, for tests/flaky.toml:")
    for test in flakes:
        print(f"\n{flaky.entry_of(test, failed[test].said)}")
    return int(len(flakes) < len(failed))


if __name__ == "__main__":
    sys.exit(main())
