"""Give failed tests on real processes a second look: alone, in a fresh process, on a quiet machine.

    python -m tools.ci_again tests.jsonl again.jsonl

A test in one process fails once and for all, and so do more tests than a machine's hiccups explain. Whoever passes the
second time is still named, by `tools.ci_summary`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

AT_MOST = 5


def failed_tests(lines: Iterable[str]) -> dict[str, bool]:
    """The tests of which a phase failed, by name → whether each is on real processes."""
    phases = (json.loads(line) for line in lines)
    failed = {phase["test"]: phase["real"] for phase in phases if phase.get("outcome") == "failed"}
    return dict(sorted(failed.items()))


def refusal(failed: dict[str, bool]) -> str:
    """Why these tests get no second look; empty if they do."""
    in_process = [test for test, real in failed.items() if not real]
    if in_process:
        return f"no second look: {in_process[0]} starts no process, so it fails on any machine"
    if len(failed) > AT_MOST:
        return f"no second look: {len(failed)} tests failed, and at most {AT_MOST} are run again"
    return ""


def look_again(tests: Sequence[str], log: Path) -> bool:
    """Run each test in a pytest of its own; return whether all passed."""
    environment = {**os.environ, "SCALECURVE_TEST_LOG": str(log)}
    command = [sys.executable, "-m", "pytest", "-n", "0", "--dist", "no", "-p", "no:cacheprovider"]
    return not any([subprocess.run([*command, test], env=environment, check=False).returncode for test in tests])


def main() -> int:
    """Exit with 0 if no test failed, or each one passes now."""
    log, again = (Path(name) for name in sys.argv[1:])
    failed = failed_tests(log.read_text().splitlines())
    if why := refusal(failed):
        print(why)
        return 1
    return 0 if look_again(list(failed), again) else 1


if __name__ == "__main__":
    sys.exit(main())
