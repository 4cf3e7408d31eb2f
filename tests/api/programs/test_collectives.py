"""What ``program: collectives`` allows, and nccl-tests' factors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.features.collectives.fields import AllReduceWorkload, CollectivesWorkload
from scalecurve_api.features.collectives.kinds import Collective
from tests.api.example_experiments import problems

WORKLOAD = {"program": "collectives"}


def fields(workload: dict[str, object], workers: list[int]) -> list[str]:
    found = problems({"scaling/workers": workers, "workload": {**WORKLOAD, **workload}})
    return [".".join(map(str, each.path)) for each in found]


@pytest.mark.parametrize(
    ("workload", "workers", "field"),
    [
        ({}, [2, 3], None),
        ({"collectives": ["broadcast"], "backend": "gloo", "device": "cpu"}, [2], None),
        ({"tool": "nccl-tests", "device": "gpu"}, [2], None),
        ({}, [1, 2], "spec.workload.collectives"),
        ({"collectives": ["broadcast", "broadcast"]}, [2], "spec.workload.collectives"),
        ({"tool": "nccl-tests", "device": "cpu"}, [2], "spec.workload.tool"),
        ({"backend": "mpi", "sizes": {"dtype": "float16"}}, [2], "spec.workload.sizes.dtype"),
    ],
)
def test_rules(workload: dict[str, object], workers: list[int], field: str | None) -> None:
    assert fields(workload, workers) == ([field] if field else [])


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (Collective.all_reduce, 1.5),
        (Collective.all_gather, 0.75),
        (Collective.reduce_scatter, 0.75),
        (Collective.all_to_all, 0.75),
        (Collective.broadcast, 1.0),
        (Collective.send_recv, 1.0),
    ],
)
def test_bus_bandwidth_of_four_ranks(kind: Collective, factor: float) -> None:
    assert kind.bus_factor(4) == factor


@given(st.sampled_from(Collective), st.integers(1, 64), st.integers(1, 1000))
def test_the_larger_side_of_a_collective_is_its_size(kind: Collective, world: int, share: int) -> None:
    count = share * world
    assert max(kind.sent(count, world), kind.received(count, world)) == count


def test_a_command_of_nccl_tests_is_one_program() -> None:
    words = ["/opt/alltoall_perf_mpi", "--minbytes=8", "-e", "1G", "-d", "half", "-g", "4", "-c", "1"]
    sizes = {"minBytes": 8, "maxBytes": 1 << 30, "dtype": "float16"}
    expected = {"program": "collectives", "collectives": ["all-to-all"], "sizes": sizes}, ["-c 1"]
    assert CollectivesWorkload.of_command(words) == expected
    assert AllReduceWorkload.of_command(words) is None
    assert AllReduceWorkload.of_command(["all_reduce_perf"]) == ({"program": "allreduce", "sizes": {}}, [])
    assert CollectivesWorkload.of_command(["all_reduce_perf"]) is None
    assert CollectivesWorkload.of_command(["gather_perf", "-b", "8"]) is None
