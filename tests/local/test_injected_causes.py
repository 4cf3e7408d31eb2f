"""A large cause that is put into a real training of two ranks is named as what takes most of its step."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.injected.cases import CASES, run
from scalecurve.curves.losses import LABELS

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes


@pytest.mark.parametrize("name", ["loader", "rank"])
def test_a_large_cause_is_the_largest_term(name: str, tmp_path: Path) -> None:
    # A busy machine slows the baseline too: its terms then contradict each other, and the refusal names the largest.
    case = CASES[name]
    largest = run(case.with_ms(200), tmp_path / name, windows=1, steps=2).largest
    assert largest == case.kind or largest.startswith(f"not split: {LABELS[case.kind]} would be")
