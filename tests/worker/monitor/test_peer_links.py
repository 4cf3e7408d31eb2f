"""The fastest way between two ranks, by what each knows of its place."""

from __future__ import annotations

import os
from typing import Any

import pytest

from scalecurve_worker.torch import transports
from scalecurve_worker.torch.transports import fastest_between, place_of

HERE: dict[str, Any] = {"device": "GPU-a", "host": "one", "shared_memory": 5, "adapters": True}


@pytest.mark.parametrize(
    ("changes", "nvlink", "way"),
    [
        ({}, True, "P2P"),
        ({}, False, "SHM"),
        ({}, None, "SHM"),
        ({"shared_memory": 6}, None, None),
        ({"shared_memory": None}, False, None),
        ({"host": "other"}, True, "NET/IB"),
        ({"host": "other", "adapters": False}, True, None),
        ({"host": None, "adapters": False}, True, None),
    ],
)
def test_ways(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], nvlink: bool | None, way: str | None) -> None:
    monkeypatch.setattr(transports, "nvlink_between", lambda one, other: nvlink)
    assert fastest_between(HERE, {**HERE, "device": "GPU-b", **changes}) == way


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no shared memory here")
def test_two_ranks_of_this_container_share_memory() -> None:
    assert fastest_between(place_of("GPU-a"), place_of("GPU-b")) == "SHM"
