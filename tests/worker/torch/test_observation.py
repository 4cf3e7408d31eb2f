"""What the observation of a program loads, and leaves loaded, while it looks for collectives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from scalecurve_worker.torch.observation import TorchObserver
from scalecurve_worker.torch.profiler_session import ProfilerSession
from tests.worker.ports import free_port


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(("calls", "profiled"), [(True, []), (False, ["cuda"])])
def test_no_profiler_is_loaded_where_collectives_were_seen(
    calls: bool, profiled: list[str], group: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(ProfilerSession, "begin", lambda _, **options: asked.append(options["use_device"]))
    monkeypatch.setattr(ProfilerSession, "end", lambda _: [])
    observer = TorchObserver(nn.Linear(2, 1), torch.device("cuda"))
    for steps, anew in ((1, True), (3, False)):
        observer.begin(steps, anew)
        if calls:
            dist.all_reduce(torch.ones(1024))
        observer.end()
    assert asked == profiled
    assert observer.complete == calls
