"""Collectives are seen by name and size where torch dispatches them, whoever calls them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from scalecurve_worker.torch.collective_calls import CollectiveCall, CollectiveCalls
from tests.worker.ports import free_port


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_each_collective_is_named_as_torchs_profiler_names_it(group: None) -> None:
    seen: list[CollectiveCall] = []
    tensor = torch.ones(6)
    half = tensor.to(torch.bfloat16)
    with CollectiveCalls(seen.append):
        dist.all_reduce(tensor)
        dist.broadcast(half, 0)
        dist.all_gather([torch.empty(6)], tensor)
        dist.group.WORLD._allgather_base(torch.empty(6), tensor).wait()
        dist.group.WORLD._reduce_scatter_base(torch.empty(6), tensor).wait()
        dist.all_to_all_single(torch.empty(6), tensor)
        dist.barrier()
        functional.all_reduce(tensor, "sum", dist.group.WORLD).add(1)
    assert seen == [
        ("gloo:all_reduce", 24),
        ("gloo:broadcast", 12),
        ("gloo:all_gather", 24),
        ("gloo:_all_gather_base", 24),
        ("gloo:_reduce_scatter_base", 24),
        ("gloo:all_to_all_base", 24),
        ("gloo:all_reduce", 24),
    ]
    dist.all_reduce(tensor)
    assert len(seen) == 7


def test_gradients_that_a_wrapper_sends_in_the_backward_pass_are_seen(group: None) -> None:
    seen: list[CollectiveCall] = []
    model = DistributedDataParallel(nn.Linear(4, 4))
    with CollectiveCalls(seen.append):
        model(torch.randn(2, 4)).sum().backward()
    assert seen == [("gloo:all_reduce", (16 + 4) * 4)]


def test_what_torch_compiles_is_compiled_before_and_after(group: None) -> None:
    seen: list[CollectiveCall] = []
    reduced = torch.compile(
        lambda tensor: functional.all_reduce(tensor + 1, "sum", dist.group.WORLD) * 2, backend="eager"
    )
    frames = torch._dynamo.utils.counters["frames"]
    with CollectiveCalls(seen.append):
        reduced(torch.ones(6))
    before = frames["ok"]
    reduced(torch.ones(6))
    assert frames["ok"] > before
    with CollectiveCalls(seen.append):
        reduced(torch.ones(6))
    assert seen == 2 * [("gloo:all_reduce", 24)]


def test_an_optimizer_of_shards_plans_its_step_on_fake_tensors(group: None) -> None:
    seen: list[CollectiveCall] = []
    model = nn.Linear(5, 3)  # of shapes that no other test has given torch's cache of plans
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with CollectiveCalls(seen.append):
        model(torch.ones(2, 5)).sum().backward()
        optimizer.step()
    assert {call.kind for call in seen} <= {"gloo:_all_gather_base", "gloo:_reduce_scatter_base"}
