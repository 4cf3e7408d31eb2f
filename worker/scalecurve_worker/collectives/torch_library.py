"""``program: allreduce`` over torch.distributed, which offers only in-place all-reduce."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from scalecurve_api.programs.allreduce import AllReduceWorkload, Payload
from scalecurve_api.programs.collectives import AllReduce
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.collectives.allreduce import Benchmark, check_nodes, granule_of, host_bytes
from scalecurve_worker.collectives.payload import gradient_elements
from scalecurve_worker.process.identity import identify
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.torch_store import backend_for
from scalecurve_worker.steps.timing import Clock, HostClock, UnixTime
from scalecurve_worker.torch.clock import CudaClock
from scalecurve_worker.torch.device import choose_device, device_identity, framework_versions
from scalecurve_worker.torch.process_group import ask_for_algorithm, choose_backend, join_group, leave_group

Carried = Callable[[Tensor], object]
# Renamed in torch 2.14.
_reduce_scatter: Callable[..., object] = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather: Callable[..., object] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def all_reduce_of(algorithm: AllReduce, per_node: int) -> Carried:
    """What adds a message up over all ranks; ``per_node`` of them, by number, make a node."""
    if algorithm is AllReduce.parameter_server:
        return _through_one
    if algorithm is AllReduce.hierarchical:
        return _by_nodes(per_node)
    return dist.all_reduce


def _through_one(message: Tensor) -> None:
    dist.reduce(message, 0)
    dist.broadcast(message, 0)


def _by_nodes(per_node: int) -> Carried:
    """Reduce-scatter inside the node, all-reduce of each share across nodes, all-gather inside the node."""
    rank, world = dist.get_rank(), dist.get_world_size()
    nodes = [list(range(first, first + per_node)) for first in range(0, world, per_node)]
    # Every rank makes every group, in the same order.
    within: Any = [dist.new_group(ranks) for ranks in nodes][rank // per_node]
    across: Any = [dist.new_group(list(range(local, world, per_node))) for local in range(per_node)][rank % per_node]
    share: Tensor | None = None

    def carry(message: Tensor) -> None:
        nonlocal share
        if share is None or share.numel() * per_node != message.numel():
            share = message.new_empty(message.numel() // per_node)
        _reduce_scatter(share, message, group=within)
        dist.all_reduce(share, group=across)
        _all_gather(message, share, group=within)

    return carry


def run(trial: TrialSpec) -> None:
    """Measure every size on this rank."""
    workload = trial.workload_as(AllReduceWorkload)
    device = choose_device(workload.device, identify().local_rank)
    backend = choose_backend(workload.backend, device)
    ask_for_algorithm(workload.all_reduce, backend)
    join_group(backend, device)
    session = Session(*device_identity(device))
    session.facts.versions = framework_versions(device)
    session.facts.backend = backend_for(device)
    session.facts.options = {"allReduce": workload.all_reduce.value}
    check_nodes(workload.all_reduce, session, trial.point.workers_per_node)
    library = TorchLibrary(workload.sizes.dtype, device, trial.seed, workload.all_reduce, trial.point.workers_per_node)
    elements = gradient_elements(workload) if workload.sizes.payload is not Payload.sizes else None
    Benchmark(workload.sizes, library, session, elements).run()
    leave_group()


class TorchLibrary:
    """Tensors on one device, added up by the default group."""

    def __init__(self, dtype: str, device: torch.device, seed: int, algorithm: AllReduce, per_node: int) -> None:
        self._dtype: torch.dtype = getattr(torch, dtype)
        self.element_bytes = self._dtype.itemsize
        self._device = device
        self._carry = all_reduce_of(algorithm, per_node)
        self.granule = granule_of(algorithm, per_node)
        self.copies = 3 if algorithm is AllReduce.hierarchical else 2
        self._random = torch.Generator(device).manual_seed(seed * 100_003 + dist.get_rank())

    def available_bytes(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.mem_get_info(self._device)[0] * 0.9)
        return host_bytes(dist.get_world_size())

    def message(self, count: int) -> Tensor:
        return torch.empty(count, dtype=self._dtype, device=self._device)

    def indices(self, begin: int, end: int) -> Tensor:
        return torch.arange(begin, end, device=self._device)

    def random(self, count: int) -> Tensor:
        return torch.randn(count, device=self._device, generator=self._random)

    def all_reduce(self, message: Tensor) -> None:
        self._carry(message)

    def clock(self, unix: UnixTime) -> Clock:
        return CudaClock(unix, self._device) if self._device.type == "cuda" else HostClock(unix)
