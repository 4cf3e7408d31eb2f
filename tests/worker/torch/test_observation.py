"""What the observation of a program loads, and leaves loaded, while it looks for collectives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from scalecurve_worker.torch.collective_calls import UNDISPATCHED, CollectiveCall, Tell
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


def test_what_another_library_sums_is_seen_and_not_counted_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Horovod's operations by its own watcher, and a registered library's; nothing is watched afterwards."""
    handed: list[object] = []
    library = SimpleNamespace(horovod_torch_allreduce_async_torch_FloatTensor=handed.append)
    operations = SimpleNamespace(mpi_lib=library)
    monkeypatch.setitem(sys.modules, "horovod.torch.mpi_ops", operations)
    told: list[Tell] = []

    def watch(tell: Tell) -> Callable[[], None]:
        told.append(tell)
        return told.clear

    monkeypatch.setitem(UNDISPATCHED._loaded, "ucc", watch)
    monkeypatch.setattr(UNDISPATCHED, "built_in", {**UNDISPATCHED.built_in, "ucc": "unused"})
    observer = TorchObserver(nn.Linear(2, 1), torch.device("cpu"))
    observer.begin(1, True)
    operations.mpi_lib.horovod_torch_allreduce_async_torch_FloatTensor(torch.ones(3))
    told[0](CollectiveCall("ucc:broadcast", 8))
    observer.end()
    assert operations.mpi_lib is library
    assert (len(handed), told) == (1, [])
    communication = observer.proof(None, False).communication
    assert communication is not None
    assert (communication.kinds, communication.bytes) == (["horovod:allreduce", "ucc:broadcast"], 20)
    assert communication.timed_calls is None
