"""Tests of this room attach in their own process too."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that attach in this process start from an environment without a launcher or an engine."""
    for name in list(os.environ):
        if name.startswith("SCALECURVE_") or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
            monkeypatch.delenv(name)
