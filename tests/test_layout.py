"""Tests, tools and benchmarks are packages that import each other by name from the root of the repository."""

import re
from pathlib import Path

import pytest

from tests.conftest import ALONE, GATE, LONGEST, PROCESSES, SUITES

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("tests", "tools", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
EDIT = re.compile(r"\bsys\.path(\[|\.(append|extend|insert)|\s*\+?=)")


def test_no_file_edits_the_import_path() -> None:
    assert [str(path.relative_to(ROOT)) for path in FILES if EDIT.search(path.read_text())] == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES if path.name.startswith("test_")}))
def test_a_folder_with_tests_is_a_package(folder: Path) -> None:
    assert (folder / "__init__.py").exists()


@pytest.mark.parametrize("listed", [*SUITES, *PROCESSES, *ALONE, *GATE, *LONGEST])
def test_what_is_listed_for_a_suite_or_a_lane_exists(listed: str) -> None:
    path, _, function = listed.partition("::")
    assert list(ROOT.glob(f"{path.rstrip('/')}*"))
    assert not function or f"def {function.partition('[')[0]}" in (ROOT / path).read_text()
