"""Gradients sent during the backward pass, or all of them after it."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_worker.torch import models
from scalecurve_worker.torch.strategies import ddp


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def sent(options: dict[str, Any]) -> list[int]:
    """Elements of each bucket of a step."""
    workload = TorchWorkload.model_validate({"strategy": "ddp", "model": "mlp", "options": options})
    wrapped: Any = ddp(models.build("mlp"), torch.device("cpu"), workload).module
    buckets: list[int] = []

    def note(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buckets.append(bucket.buffer().numel())
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped.register_comm_hook(None, note)
    for _ in range(2):  # DDP lays its buckets out anew after the first step
        buckets.clear()
        wrapped(torch.randn(2, *models.spec("mlp").shape)).sum().backward()
    return buckets


@pytest.mark.usefixtures("alone")
def test_without_overlap_all_gradients_are_one_bucket() -> None:
    parameters = models.spec("mlp").parameters
    assert len(sent({})) > 1
    assert sum(sent({})) == parameters
    assert sent({"overlap": False}) == [parameters]
