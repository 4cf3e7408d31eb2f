"""Run tests on real processes that are new or changed since the last landing twice more: flakes come in with new tests.

    python -m tools.new_tests tests.jsonl

`.ci/run` calls it after `make test`, whose log says which tests those were and how long each took, and which it goes on
writing. `tools.ci_again` gives none of them a second look. A test is new or changed by its own function: where a helper
has changed, every test would be.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from tools.ci_summary import outcomes_of, phases_of
from tools.landings import ROOT, changed_paths, git, read_landings

TIMES_MORE = 2
SLOWEST_S = 20.0
"""A test that takes longer is run once."""
BUDGET_S = 120.0
"""For all runs together, with what their fixtures take: no test begins after it."""


def functions_of(source: str) -> dict[str, str]:
    """The tests of a file, `test_it` or `TestIt::test_it` → their code without comments and layout."""
    return dict(_functions(ast.parse(source).body, ""))


def _functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield prefix + node.name, ast.dump(node)


def new_or_changed(commit: str) -> set[str]:
    """The tests, without parameters, that a commit doesn't know as they are; none where this clone lacks the commit."""
    if git("cat-file", "-e", f"{commit}^{{commit}}") is None:
        print(f"new tests are unknown: this clone lacks the commit of the last landing, {commit}")
        return set()
    found = set()
    for path in changed_paths(commit, within=[":(glob)tests/**/test_*.py"]):
        if (ROOT / path).is_file():
            then = functions_of(git("show", f"{commit}:{path}") or "")
            now = functions_of((ROOT / path).read_text(encoding="utf-8"))
            found |= {f"{path}::{name}" for name, code in now.items() if then.get(name) != code}
    return found


def since_the_last_landing() -> set[str]:
    """The tests that are new or changed since the last landing."""
    return new_or_changed(read_landings()[-1].commit)


def is_among(test: str, functions: Set[str]) -> bool:
    """Whether a test, with its parameters, is one of these functions."""
    return test.partition("[")[0] in functions


def seconds_of(lines: Sequence[str], functions: Set[str]) -> dict[str, float]:
    """The tests on real processes among these that passed → their seconds."""
    outcomes, seconds = outcomes_of(lines), Counter[str]()
    for phase in phases_of(lines):
        if phase["real"] and outcomes[phase["test"]] == "passed" and is_among(phase["test"], functions):
            seconds[phase["test"]] += phase["seconds"]
    return dict(seconds)


def within_budget(seconds: Mapping[str, float]) -> list[str]:
    """The quickest tests, as many as may run again in time, file by file, so that a file's fixtures are made once."""
    chosen, spent = [], 0.0
    for test, took in sorted(seconds.items(), key=lambda item: item[1]):
        spent += TIMES_MORE * took
        if took > SLOWEST_S or spent > BUDGET_S:
            break
        chosen.append(test)
    return sorted(chosen, key=lambda test: test.partition("::")[0])


def main() -> int:
    """Exit with 0 if every run passed."""
    (log,) = (Path(name) for name in sys.argv[1:])
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    seconds = seconds_of(lines, since_the_last_landing())
    chosen = within_budget(seconds)
    print(f"{len(chosen)} new or changed tests on real processes run {TIMES_MORE} times more")
    if dropped := len(seconds) - len(chosen):
        print(
            f"{dropped} do not: they take over {SLOWEST_S:.0f} s, or {BUDGET_S:.0f} s for all are used up", flush=True
        )
    if not chosen:
        return 0
    rounds = ["-p", "tools.rounds", "--rounds", str(TIMES_MORE), "--rounds-within", str(BUDGET_S)]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "--dist",
        "no",
        "-q",
        "-p",
        "no:cacheprovider",
        *rounds,
        *chosen,
    ]
    return subprocess.run(command, env={**os.environ, "SCALECURVE_TEST_LOG": str(log)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
