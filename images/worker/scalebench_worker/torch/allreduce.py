"""``program: allreduce``: torch.distributed's all-reduce by message size, in nccl-tests' conventions.

Iterations follow one another without a barrier, as in nccl-tests: each all-reduce lines the ranks up for the next,
and its time is from the end of the one before. Only in place: torch.distributed has no other all-reduce.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from scalebench_api.experiment import Sizes
from scalebench_api.record.journal import NO_LOSS, StepRow
from scalebench_api.record.rank import AllReduceRow, Window, WindowKind
from scalebench_api.trial import TrialSpec
from scalebench_worker.failure import WorkloadError
from scalebench_worker.identity import identify
from scalebench_worker.session import Measured, Session
from scalebench_worker.timing import Clock, HostClock
from scalebench_worker.torch.clock import CudaClock
from scalebench_worker.torch.communicator import backend_for
from scalebench_worker.torch.device import choose_device, device_identity, framework_versions
from scalebench_worker.torch.group import ask_for_algorithm, choose_backend, join_group, leave_group

# By type: the power of two that data begin at, and how often they may then double before they overflow.
_RANGE = {torch.float32: (-110, 225), torch.bfloat16: (-110, 225), torch.float16: (-8, 19)}
_CHECKED_AT_ONCE = 1 << 22
_CONVENTIONS = "nccl-tests: algbw = bytes/time, busbw = algbw*2(n-1)/n, 1 GB = 1e9 bytes, slowest rank"


def run(trial: TrialSpec) -> None:
    """Measure every size on this rank.

    Raises:
        WorkloadError: a device or backend that is not here, or not one size that fits in memory.
    """
    workload = trial.workload
    device = choose_device(workload.device, identify().local_rank)
    backend = choose_backend(workload.backend, device)
    ask_for_algorithm(workload.all_reduce, backend)
    join_group(backend, device)
    Benchmark(workload.sizes, trial.seed, device).run()
    leave_group()


def message_sizes(sizes: Sizes, element: int, available: int) -> tuple[list[int], list[int]]:
    """Bytes of each message, whole elements only; those that fit twice into ``available``, and those that do not."""
    asked: list[int] = []
    size = sizes.min_bytes
    while size <= sizes.max_bytes:
        whole = max(size // element, 1) * element
        if whole not in asked:
            asked.append(whole)
        size *= sizes.factor
    return [size for size in asked if 2 * size <= available], [size for size in asked if 2 * size > available]


def row_of(size: int, times_ns: list[int], world: int, errors: int) -> AllReduceRow:
    """One line of the table, from the slowest rank's time at each iteration in ns.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    median_ns = statistics.median(times_ns)
    algbw = size / median_ns
    return AllReduceRow(
        bytes=size,
        in_place=True,
        iterations=len(times_ns),
        time_us_median=median_ns / 1e3,
        time_us_min=min(times_ns) / 1e3,
        time_us_p95=sorted(times_ns)[math.ceil(0.95 * len(times_ns)) - 1] / 1e3,
        algbw=algbw,
        busbw=algbw * 2 * (world - 1) / world,
        errors=errors,
    )


class Benchmark:
    """All sizes on one rank."""

    def __init__(self, sizes: Sizes, seed: int, device: torch.device) -> None:
        self._sizes = sizes
        self._device = device
        self._dtype: torch.dtype = getattr(torch, sizes.dtype)
        self._session = Session(*device_identity(device))
        self._world = self._session.communicator.world
        self._rank = self._session.communicator.rank
        self._random = torch.Generator(device).manual_seed(seed * 100_003 + self._rank)
        self._measured = Measured()
        self._step = 0

    def run(self) -> None:
        """Measure, and write the record."""
        facts = self._session.facts
        facts.versions = framework_versions(self._device)
        facts.backend = backend_for(self._device)
        available = min(self._session.communicator.all_gather(_available_bytes(self._device)))
        element = torch.empty((), dtype=self._dtype).element_size()
        fitting, left_out = message_sizes(self._sizes, element, available)
        if not fitting:
            raise WorkloadError(f"workload.sizes.minBytes: {self._sizes.min_bytes} does not fit in memory")
        facts.options = {
            "dtype": self._sizes.dtype,
            "conventions": _CONVENTIONS,
            "leftOutBytes": left_out,
            "iterations": self._sizes.iterations,
        }
        for index, size in enumerate(fitting):
            facts.allreduce.append(self._size(index, size, size // element))
        self._session.finish(self._measured)

    def _size(self, index: int, size: int, count: int) -> AllReduceRow:
        errors = sum(self._session.communicator.all_gather(self._check(count)))
        times = self._time(index, count)
        slowest = [max(each) for each in zip(*self._session.communicator.all_gather(times), strict=True)]
        return row_of(size, slowest, self._world, errors)

    def _check(self, count: int) -> int:
        """Elements that differ from the sum worked out by hand, which every type holds exactly."""
        message = torch.empty(count, dtype=self._dtype, device=self._device)
        for begin, end in _pieces(count):
            message[begin:end] = contribution(begin, end, self._rank, self._world, self._device)
        dist.all_reduce(message)
        wrong = 0
        for begin, end in _pieces(count):
            wanted = total(begin, end, self._world, self._device).to(self._dtype)
            wrong += int((message[begin:end] != wanted).sum())
        return wrong

    def _time(self, index: int, count: int) -> list[int]:
        unix = self._session.unix
        clock: Clock = CudaClock(unix, self._device) if self._device.type == "cuda" else HostClock(unix)
        source = self._random_data(count)
        message = source.clone()
        for _ in range(self._sizes.warmup):
            message.copy_(source)
            dist.all_reduce(message)
        times: list[int] = []
        opened, wall_ns, first = 0, 0, self._step
        while len(times) < self._sizes.iterations:
            begun, spent, some = self._group(clock, message, source, index, self._sizes.iterations - len(times))
            opened = opened or begun
            wall_ns += spent
            times += some
        self._measured.first_step_ns = self._measured.first_step_ns or opened
        self._measured.windows.append(
            Window(
                index=index,
                kind=WindowKind.train,
                open_ns=opened,
                wall_ns=wall_ns,
                first_step=first,
                steps=len(times),
                samples=0,
            )
        )
        return times

    def _group(
        self, clock: Clock, message: Tensor, source: Tensor, index: int, most: int
    ) -> tuple[int, int, list[int]]:
        """As many iterations as fresh data stay finite for: infinities would toggle fewer bits than numbers do."""
        message.copy_(source)
        clock.synchronize()
        self._session.communicator.barrier()
        # This one lines the ranks up, and is not timed.
        dist.all_reduce(message)
        opened = clock.open()
        for _ in range(min(most, self._doublings())):
            dist.all_reduce(message)
            clock.mark()
        wall_ns = clock.close()
        spans = clock.finished()
        self._session.recorder.append(
            StepRow(self._step + i, index, span.start_ns, span.duration_ns, 0, NO_LOSS) for i, span in enumerate(spans)
        )
        self._step += len(spans)
        return opened, wall_ns, [span.duration_ns for span in spans]

    def _doublings(self) -> int:
        # One is spent on the all-reduce that lines the ranks up.
        return max(1, int(_RANGE[self._dtype][1] / max(1.0, math.log2(self._world))) - 1)

    def _random_data(self, count: int) -> Tensor:
        data = torch.empty(count, dtype=self._dtype, device=self._device)
        scale = 2.0 ** _RANGE[self._dtype][0]
        for begin, end in _pieces(count):
            data[begin:end] = scale * torch.randn(end - begin, device=self._device, generator=self._random)
        return data


def contribution(begin: int, end: int, rank: int, world: int, device: torch.device) -> Tensor:
    """Elements ``begin`` to ``end`` of a rank's message: a weight where the rank takes part, else 0."""
    index = torch.arange(begin, end, device=device)
    return torch.where((index + rank) % world < _takers(index, world), _weight(index), 0)


def total(begin: int, end: int, world: int, device: torch.device) -> Tensor:
    """Their sum over all ranks: as many ranks take part as ``_takers`` says, whatever the world size."""
    index = torch.arange(begin, end, device=device)
    return _takers(index, world) * _weight(index)


def _takers(index: Tensor, world: int) -> Tensor:
    return 1 + index % min(16, world)


def _weight(index: Tensor) -> Tensor:
    # At most 5 * 16 = 80: exact in bfloat16, in any order of summation.
    return 1 + index % 5


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, _CHECKED_AT_ONCE):
        yield begin, min(count, begin + _CHECKED_AT_ONCE)


def _available_bytes(device: torch.device) -> int:
    """Memory that this rank may fill: the GPU's free memory, or its share of the host's, with a tenth to spare."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * 0.9)
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(int(line.split()[1]) * 1024 * 0.9 / dist.get_world_size())
    raise WorkloadError("program allreduce: /proc/meminfo does not say how much memory is available")
