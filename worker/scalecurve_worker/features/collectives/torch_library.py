"""``program: allreduce`` and ``program: collectives`` over torch.distributed."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import _DEFAULT_FIRST_BUCKET_BYTES, _compute_bucket_assignment_by_size

from scalecurve_api.features.collectives.facts import COLLECTIVES, CollectiveRow
from scalecurve_api.features.collectives.fields import AllReduceWorkload, CollectivesWorkload, Microbenchmark, Payload
from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.collectives import nccl_tests
from scalecurve_worker.features.collectives.benchmark import Benchmark, check_nodes, host_bytes
from scalecurve_worker.features.collectives.torch_operations import all_reduce_by, operation
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import identify
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.torch_store import backend_for
from scalecurve_worker.steps.timing import Clock, HostClock, UnixTime
from scalecurve_worker.torch import models
from scalecurve_worker.torch.clock import CudaClock
from scalecurve_worker.torch.device import choose_device, device_identity, framework_versions
from scalecurve_worker.torch.process_group import ask_for_algorithm, choose_backend, join_group, leave_group
from scalecurve_worker.torch.transports import transport_of

_MIB = 1 << 20


def gradient_elements(workload: Microbenchmark) -> list[int]:
    """Return each message's elements, in the order in which a backward pass has them: the last layer's come first."""
    try:
        spec = models.spec(workload.model)
    except models.ModelError as error:
        raise WorkloadError(f"workload.model: {error}") from error
    # On the meta device: shapes alone, no memory and no random numbers.
    with torch.device("meta"):
        model = models.build(spec.name, classes=spec.classes, input_shape=spec.shape)
    gradients: list[Tensor] = [each for each in reversed(list(model.parameters())) if each.requires_grad]
    if workload.sizes.payload is Payload.gradients:
        return [each.numel() for each in gradients]
    # As DDP's reducer lays them out after the first step: full buckets, after a small one where no size is named. Its
    # limits are bytes of the gradients, which are float32 there; the messages have as many elements of any type.
    named = workload.options.bucket_cap_mb
    limits = [_DEFAULT_FIRST_BUCKET_BYTES, 25 * _MIB] if named is None else [int(named * _MIB)]
    assigned, _ = _compute_bucket_assignment_by_size(gradients, limits)
    return [sum(gradients[index].numel() for index in bucket) for bucket in assigned]


def run(trial: TrialSpec) -> None:
    """Measure all-reduces of every size on this rank."""
    workload = trial.workload_as(AllReduceWorkload)

    def measure(session: Session, benchmark: Benchmark) -> None:
        session.facts.options["allReduce"] = workload.all_reduce.value
        check_nodes(workload.all_reduce, session, trial.point.workers_per_node)
        benchmark.all_reduce(all_reduce_by(workload.all_reduce, trial.point.workers_per_node))

    copies = 3 if workload.all_reduce is AllReduce.hierarchical else 2
    _join(trial, workload, workload.all_reduce, copies, measure)


def run_collectives(trial: TrialSpec) -> None:
    """Measure every collective and size on this rank."""
    workload = trial.workload_as(CollectivesWorkload)

    def measure(session: Session, benchmark: Benchmark) -> None:
        benchmark.collectives([operation(kind) for kind in workload.collectives])
        if workload.tool == nccl_tests.TOOL:
            _run_tool(session, workload)

    _join(trial, workload, AllReduce.auto, 3, measure)


def _run_tool(session: Session, workload: CollectivesWorkload) -> None:
    """Let rank 0 run the tool while the others wait, without what they keep of the GPUs' memory."""
    torch.cuda.empty_cache()
    # Gathered once the last rank is done: the GPUs are idle.
    hosts = session.communicator.all_gather(session.topology.node or session.topology.host)
    outcome: list[Any] = [[], {}]
    if session.communicator.rank == 0:
        reason = nccl_tests.why_not(workload, hosts, torch.cuda.device_count())
        rows, failures = ([], {"all": reason}) if reason else nccl_tests.measure(workload, len(hosts))
        outcome = [[row.wire() for row in rows], failures]
    rows_of_tool, reasons = session.communicator.all_gather(outcome)[0]
    COLLECTIVES.extend(session.facts, map(CollectiveRow.model_validate, rows_of_tool))
    if reasons:
        session.facts.options["ncclTestsLeftOut"] = reasons


def _join(
    trial: TrialSpec,
    workload: Microbenchmark,
    algorithm: AllReduce,
    copies: int,
    measure: Callable[[Session, Benchmark], None],
) -> None:
    device = choose_device(workload.device, identify().local_rank)
    backend = choose_backend(workload.backend, device)
    ask_for_algorithm(algorithm, backend)
    join_group(backend, device)
    session = Session(*device_identity(device))
    session.facts.versions = framework_versions(device)
    session.facts.backend = backend_for(device)
    library = TorchLibrary(workload.sizes.dtype, device, trial.seed, copies)
    elements = gradient_elements(workload) if workload.sizes.payload is not Payload.sizes else None
    measure(session, Benchmark(workload.sizes, library, session, elements))
    session.facts.transport = transport_of(session.communicator, session.topology.device, session.facts.backend)
    session.finish()
    leave_group()


class TorchLibrary:
    """Tensors on one device, sent by the default group."""

    def __init__(self, dtype: str, device: torch.device, seed: int, copies: int) -> None:
        self._dtype: torch.dtype = getattr(torch, dtype)
        self.element_bytes = self._dtype.itemsize
        self._device = device
        self.copies = copies
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

    def clock(self, unix: UnixTime) -> Clock:
        return CudaClock(unix, self._device) if self._device.type == "cuda" else HostClock(unix)
