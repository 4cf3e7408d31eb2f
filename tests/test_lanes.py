"""Tests of the suite `cluster` that decide, too: in which run they are, and as what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import ALONE, GATE, pytest_collection_modifyitems
from tests.operator.conftest import MPI, OTHERS
from tools import ROOT

SECOND_LOOK = ("processes", "flaky")
OTHER = "tests/cluster/test_operator_kills.py::test_it"
TESTS = [OTHER, *(f"{path}::test_it" for path in reversed((*ALONE, *GATE)) if "::" not in path)]


class Item:
    """What of a test the hook looks at."""

    fixturenames = ("tier",)

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marks: set[str] = set()

    def add_marker(self, mark: str | pytest.MarkDecorator) -> None:
        self.marks.add(mark if isinstance(mark, str) else mark.name)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def marked(expression: str) -> dict[str, set[str]]:
    """Each test → its marks in a run of `pytest -m expression`, in the order in which they run."""
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
    items = [Item(test) for test in TESTS]
    pytest_collection_modifyitems(config, cast("list[pytest.Item]", items))
    return {item.nodeid: item.marks for item in items}


def listed(paths: tuple[str, ...]) -> list[str]:
    return [f"{path}::test_it" for path in paths if "::" not in path]


@pytest.mark.parametrize("expression", ["cluster", ""])
def test_the_suite_runs_all_of_its_tests(expression: str) -> None:
    marks = marked(expression)
    assert [marks[test] for test in listed(GATE)] == [{"cluster", "alone", *SECOND_LOOK}] * len(listed(GATE))
    assert marks[OTHER] == {"cluster", *SECOND_LOOK}
    assert list(marks) == TESTS


def test_in_make_test_they_come_last_and_are_not_of_the_suite() -> None:
    marks = marked("alone")
    order = [test for test in marks if test != OTHER]
    assert order == [*listed(ALONE), *listed(GATE)]
    assert all(marks[test] == {"alone", *SECOND_LOOK} for test in order)


def test_make_test_builds_what_they_need() -> None:
    """What is missing skips a test, and fails none."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    (built,) = (line.partition(" := ")[2].split() for line in lines if line.startswith("GATE_TOOLS "))
    assert sorted(built) == sorted(["etcd", "k8s", "kwok", "helm", MPI, *OTHERS])
