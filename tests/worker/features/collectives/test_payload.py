"""A model's messages: as DDP itself sends them."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.nn.parallel import DistributedDataParallel

from scalecurve_api.programs.workload import Workload
from scalecurve_worker.features.collectives.torch_library import gradient_elements
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def workload(payload: str, **more: object) -> Workload:
    return Workload.model_validate({"program": "allreduce", "model": "resnet18", "sizes": {"payload": payload}} | more)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("cap", [None, 4.0])
def test_buckets_are_those_that_ddp_makes(cap: float | None) -> None:
    spec = models.spec("resnet18")
    model = DistributedDataParallel(models.build("resnet18"), bucket_cap_mb=cap)
    sent: list[int] = []

    def note(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        sent.append(bucket.buffer().numel())
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model.register_comm_hook(None, note)
    for _ in range(2):  # DDP lays its buckets out anew after the first step
        sent.clear()
        model(torch.randn(2, *spec.shape)).sum().backward()
    assert gradient_elements(workload("buckets", options={"bucketCapMb": cap})) == sent


def test_gradients_are_all_parameters_the_last_first() -> None:
    counts = gradient_elements(workload("gradients"))
    assert (sum(counts), counts[0], counts[-1]) == (models.spec("resnet18").parameters, 1000, 3 * 64 * 7 * 7)


def test_a_model_that_does_not_exist() -> None:
    with pytest.raises(WorkloadError, match=r"workload\.model: "):
        gradient_elements(workload("buckets", model="resnet-18"))
