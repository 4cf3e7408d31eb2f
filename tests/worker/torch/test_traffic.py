"""Bytes of gradients, buffers and statistics by hand, and those of a wrapped model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist
from torch import nn

from scalecurve_api.programs.torch_options import BatchNormMode
from scalecurve_api.programs.workload import Workload
from scalecurve_worker.torch import traffic
from scalecurve_worker.torch.device import choose_device
from scalecurve_worker.torch.strategies import ddp


def test_gradients_on_four_workers() -> None:
    sent = traffic.all_reduced(1000, 4)
    assert (sent.payload_bytes, sent.wire_bytes, sent.plain_payload_bytes) == (4000, 6000, 4000)


def test_buffers_are_broadcast_beside_them() -> None:
    sent = traffic.add_buffers(traffic.all_reduced(1000, 4, 2), 800, 4)
    assert (sent.payload_bytes, sent.wire_bytes, sent.plain_payload_bytes) == (2800, 3600, 4800)
    assert sent.how == "by size: all-reduce, broadcast of buffers"
    plain = traffic.all_reduced(1000, 4)
    assert traffic.add_buffers(plain, 0, 4) == plain == traffic.add_synchronized_norms(plain, [], 4)


def test_statistics_of_two_norms() -> None:
    # All-gathered: (2 x 3 + 1 + 2 x 5 + 1) x 4 = 72 bytes; all-reduced: (6 + 10) x 4 = 64 bytes.
    sent = traffic.add_synchronized_norms(traffic.all_reduced(1000, 4), [3, 5], 4)
    assert sent.payload_bytes == 4000 + 72 + 64
    assert sent.wire_bytes == 6000 + 3 * 72 + 1.5 * 64


def test_replicas_of_shards_also_reduce_each_shards_gradients() -> None:
    # One block of 600 elements, gathered twice as bf16, and a root of 400, once; 4 bytes of each gradient.
    flat = traffic.fsdp([(600, 2), (400, 1)], 1000, (8,), 2)
    payload = (2 * 600 + 400) * 2 + 1000 * 4
    assert (flat.payload_bytes, flat.wire_bytes) == (payload, payload * 7 / 8)
    two = traffic.fsdp([(600, 2), (400, 1)], 1000, (2, 4), 2)
    # Between two copies: an all-reduce of a quarter of the gradients.
    assert (two.payload_bytes, two.wire_bytes) == (payload + 1000, payload * 3 / 4 + 1000)
    assert two.plain_payload_bytes == flat.plain_payload_bytes == 4000
    assert two.how.endswith("reduce-scatter of gradients, all-reduce between replicas")


@pytest.mark.parametrize(("norm", "more"), [(BatchNormMode.broadcast, 4 * (2 + 2) + 8), (BatchNormMode.local, 0)])
def test_what_a_wrapped_model_sends(tmp_path: Path, norm: BatchNormMode, more: int) -> None:
    """A batch norm of two channels: two means, two variances, and the number of batches as int64."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        workload = Workload.model_validate({"options": {"batchNorm": norm.value}})
        spread = ddp(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), choose_device(workload.device, 0), workload)
        sent = spread.traffic()
    finally:
        dist.destroy_process_group()
    assert sent is not None
    assert sent.payload_bytes == 4 * (6 + 2 + 4) + more
    assert sent.wire_bytes == 0
