"""A large cause that is put into a real training of two ranks is the largest term of what explains it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.injected.cases import CASES, run

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes


@pytest.mark.parametrize("name", ["loader", "rank"])
def test_a_large_cause_is_the_largest_term(name: str, tmp_path: Path) -> None:
    # Fifty times what the step takes otherwise: a busy machine makes a wait longer, and never shorter.
    case = CASES[name]
    assert run(case.with_ms(200), tmp_path / name, windows=1, steps=2).largest == case.kind
