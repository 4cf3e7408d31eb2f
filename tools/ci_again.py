"""Run the tests that failed in a CI run once more, alone: does a test fail, or only beside others on two busy cores?

python -m tools.ci_again tests.jsonl again.jsonl

Many at once are no accident, and are not run again. A test that passes alone is still named by `tools.ci_summary`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

AT_MOST = 3


def failed_tests(lines: Iterable[str]) -> list[str]:
    """The tests of which a phase failed, in order of their names."""
    phases = (json.loads(line) for line in lines)
    return sorted({phase["test"] for phase in phases if phase["outcome"] == "failed"})


def main() -> int:
    """Exit with 0 only if every failed test passes now."""
    log, again = (Path(name) for name in sys.argv[1:])
    tests = failed_tests(log.read_text().splitlines())
    if not 0 < len(tests) <= AT_MOST:
        print(f"{len(tests)} failed tests: only 1 to {AT_MOST} are run again")
        return 1
    command = [sys.executable, "-m", "pytest", "-n", "0", "--dist", "no", *tests]
    return subprocess.run(command, env={**os.environ, "SCALECURVE_TEST_LOG": str(again)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
