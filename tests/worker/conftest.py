"""Tests of the worker attach and compute in their own process too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that attach in this process start from an environment without a launcher or an engine.

    What tests/conftest.py reads, the log for CI among it, stays.
    """
    for name in list(os.environ):
        if name.startswith("SCALECURVE_TEST_"):
            continue
        if name.startswith("SCALECURVE_") or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: threads cost more than they bring, above all on shared cores."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
