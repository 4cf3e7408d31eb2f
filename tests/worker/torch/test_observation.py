"""What the observation of a program loads, and leaves loaded, while it looks for collectives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from scalecurve_worker.torch.observation import TorchObserver
from scalecurve_worker.torch.profiler_session import ProfilerSession


class AllReduce:
    def name(self) -> str:
        return "nccl:all_reduce"

    def shapes(self) -> list[list[int]]:
        return [[1024]]

    def dtypes(self) -> list[str]:
        return ["float"]


@pytest.mark.parametrize(("events", "watched"), [([AllReduce()], [None, None]), ([], [None, "cuda"])])
def test_kernels_are_watched_only_where_no_collective_was_seen_before(
    events: list[AllReduce], watched: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(ProfilerSession, "begin", lambda _, **options: asked.append(options["use_device"]))
    monkeypatch.setattr(ProfilerSession, "end", lambda _: events)
    observer = TorchObserver(nn.Linear(2, 1), torch.device("cuda"))
    for steps, anew in ((1, True), (3, False)):
        observer.begin(steps, anew)
        observer.end()
    assert asked == watched
