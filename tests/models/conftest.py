"""Reference data for the tests of the models."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[1] / "reference"


@pytest.fixture(scope="session")
def reference() -> Callable[[str], list[dict[str, str]]]:
    """Rows of a file of ``tests/reference``; lines that begin with # name its source."""

    def read(name: str) -> list[dict[str, str]]:
        text = (REFERENCE / name).read_text(encoding="utf-8").splitlines()
        return list(csv.DictReader(line for line in text if not line.startswith("#")))

    return read
