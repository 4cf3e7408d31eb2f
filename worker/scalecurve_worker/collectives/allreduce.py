"""``program: allreduce``: time by message size with nccl-tests' conventions, for any collective library.

Iterations follow one another without a barrier, as in nccl-tests: each all-reduce lines the ranks up for the next,
and its time is from the end of the one before. Only in place.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from scalecurve_api.programs.allreduce import Sizes
from scalecurve_api.programs.collectives import AllReduce
from scalecurve_api.record.journal import NO_LOSS, StepRow
from scalecurve_api.record.rank import AllReduceRow, Window, WindowKind
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.record.session import Measured, Session
from scalecurve_worker.steps.timing import Clock, UnixTime

# By type: the power of two that data begin at, and how often they may then double before they overflow.
_RANGE = {"float32": (-110, 225), "bfloat16": (-110, 225), "float16": (-8, 19)}
_CHECKED_AT_ONCE = 1 << 22
_CONVENTIONS = "nccl-tests: algbw = bytes/time, busbw = algbw*2(n-1)/n, 1 GB = 1e9 bytes, slowest rank"
_SPARE = 0.9
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


class Library(Protocol):
    """Where messages lie, and what adds them up over ranks. Arrays are torch's or numpy's."""

    element_bytes: int
    granule: int
    """Messages have a multiple of so many elements."""
    copies: int
    """How often a message has to fit into memory."""

    def available_bytes(self) -> int:
        """Memory that this rank may fill with messages."""

    def message(self, count: int) -> Any:
        """Room for so many elements, with anything in it."""

    def indices(self, begin: int, end: int) -> Any:
        """Whole numbers from ``begin`` up to ``end``, where messages lie."""

    def random(self, count: int) -> Any:
        """Numbers of a normal distribution, other ones on each rank."""

    def all_reduce(self, message: Any) -> None:
        """Put the sum over all ranks in its place. Every rank calls."""

    def clock(self, unix: UnixTime) -> Clock:
        """What tells when an all-reduce ended."""


class Messages(NamedTuple):
    """What is measured together as one line: bytes of each message, sent one after another."""

    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)


def whole_step(elements: Sequence[int], granule_bytes: int, element: int) -> list[Messages]:
    """A model's messages: every size that occurs by itself, ascending, and then all of them as one step sends them.

    Bytes are rounded up to multiples of ``granule_bytes``.
    """
    sizes = tuple(-(-count * element // granule_bytes) * granule_bytes for count in elements)
    return [*(Messages((size,)) for size in sorted(set(sizes))), Messages(sizes)]


def message_sizes(sizes: Sizes, granule_bytes: int, available: int) -> tuple[list[int], list[int]]:
    """Message sizes in bytes, multiples of ``granule_bytes``: those that fit into ``available``, and the rest."""
    sizes_in_range: list[int] = []
    size = sizes.min_bytes
    while size <= sizes.max_bytes:
        rounded = max(size // granule_bytes, 1) * granule_bytes
        if rounded not in sizes_in_range:
            sizes_in_range.append(rounded)
        size *= sizes.factor
    return [size for size in sizes_in_range if size <= available], [size for size in sizes_in_range if size > available]


def row_of(messages: Messages, times_ns: list[int], world: int, errors: int) -> AllReduceRow:
    """One line of the table, from the slowest rank's time at each iteration in ns.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    median_ns = statistics.median(times_ns)
    algbw = messages.total / median_ns
    return AllReduceRow(
        bytes=messages.total,
        messages=len(messages.sizes),
        in_place=True,
        iterations=len(times_ns),
        time_us_median=median_ns / 1e3,
        time_us_min=min(times_ns) / 1e3,
        time_us_p95=sorted(times_ns)[math.ceil(0.95 * len(times_ns)) - 1] / 1e3,
        algbw=algbw,
        busbw=algbw * 2 * (world - 1) / world,
        errors=errors,
    )


def granule_of(algorithm: AllReduce, per_node: int) -> int:
    """Elements that a message must be a multiple of: each worker of a node takes an equal share of it."""
    return per_node if algorithm is AllReduce.hierarchical else 1


def check_nodes(algorithm: AllReduce, session: Session, per_node: int) -> None:
    """Make sure that ranks which are to add up inside a node first are in one."""
    if algorithm is not AllReduce.hierarchical:
        return
    places = session.communicator.all_gather(session.topology.node or session.topology.host)
    for first in range(0, len(places), per_node):
        here = places[first : first + per_node]
        if len(set(here)) > 1:
            raise WorkloadError(
                f"workload.allReduce: hierarchical sums within each node first, but ranks {first} to "
                f"{first + len(here) - 1} are on {', '.join(sorted(set(here)))}"
            )


class Benchmark:
    """All sizes on one rank; ``elements`` are those of a model's messages, where they are to be sent."""

    def __init__(self, sizes: Sizes, library: Library, session: Session, elements: Sequence[int] | None = None) -> None:
        self._sizes = sizes
        self._library = library
        self._session = session
        self._elements = elements
        self._world = session.communicator.world
        self._rank = session.communicator.rank
        self._measured = Measured()
        self._step = 0

    def run(self) -> None:
        """Measure, and write the record."""
        facts = self._session.facts
        lines, left_out = self._plan()
        facts.options |= {
            "dtype": self._sizes.dtype,
            "conventions": _CONVENTIONS,
            "payload": self._sizes.payload.value,
            "leftOutBytes": left_out,
            "iterations": self._sizes.iterations,
        }
        wrong: dict[int, int] = {}
        for index, messages in enumerate(lines):
            for size in messages.sizes:
                if size not in wrong:
                    wrong[size] = sum(self._session.communicator.all_gather(self._check(self._count(size))))
            facts.allreduce.append(self._line(index, messages, sum(wrong[size] for size in messages.sizes)))
        self._session.finish(self._measured)

    def _plan(self) -> tuple[list[Messages], list[int]]:
        library = self._library
        available = min(self._session.communicator.all_gather(library.available_bytes())) // library.copies
        granule_bytes = library.element_bytes * library.granule
        if self._elements is not None:
            lines = whole_step(self._elements, granule_bytes, library.element_bytes)
            if lines[-1].total > available:
                raise WorkloadError(
                    f"workload.model: its gradients, {lines[-1].total} bytes, do not fit into {available} bytes of "
                    f"memory, of which {library.copies} times as much is needed"
                )
            return lines, []
        fitting, left_out = message_sizes(self._sizes, granule_bytes, available)
        if not fitting:
            raise WorkloadError(f"workload.sizes.minBytes: {self._sizes.min_bytes} does not fit in memory")
        return [Messages((size,)) for size in fitting], left_out

    def _count(self, size: int) -> int:
        return size // self._library.element_bytes

    def _line(self, index: int, messages: Messages, errors: int) -> AllReduceRow:
        times = self._time(index, [self._count(size) for size in messages.sizes])
        slowest = [max(each) for each in zip(*self._session.communicator.all_gather(times), strict=True)]
        return row_of(messages, slowest, self._world, errors)

    def _check(self, count: int) -> int:
        """Elements that differ from the sum worked out by hand, which every type holds exactly."""
        message = self._library.message(count)
        for begin, end in _pieces(count):
            message[begin:end] = contribution(self._library.indices(begin, end), self._rank, self._world)
        self._library.all_reduce(message)
        wrong = 0
        for begin, end in _pieces(count):
            wrong += int((message[begin:end] != total(self._library.indices(begin, end), self._world)).sum())
        return wrong

    def _time(self, index: int, counts: Sequence[int]) -> list[int]:
        clock = self._library.clock(self._session.unix)
        sources = [self._random_data(count) for count in counts]
        messages = [self._library.message(count) for count in counts]
        for _ in range(self._sizes.warmup):
            _fill(messages, sources)
            for message in messages:
                self._library.all_reduce(message)
        times: list[int] = []
        opened, wall_ns, first = 0, 0, self._step
        while len(times) < self._sizes.iterations:
            begun, spent, some = self._group(clock, messages, sources, index, self._sizes.iterations - len(times))
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
        self, clock: Clock, messages: Sequence[Any], sources: Sequence[Any], index: int, most: int
    ) -> tuple[int, int, list[int]]:
        """As many iterations as fresh data stay finite for: infinities would toggle fewer bits than numbers do."""
        all_reduce = self._library.all_reduce
        _fill(messages, sources)
        clock.synchronize()
        self._session.communicator.barrier()
        # These line the ranks up, and are not timed.
        for message in messages:
            all_reduce(message)
        opened = clock.open()
        for _ in range(min(most, self._doublings())):
            for message in messages:
                all_reduce(message)
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
        return max(1, int(_RANGE[self._sizes.dtype][1] / max(1.0, math.log2(self._world))) - 1)

    def _random_data(self, count: int) -> Any:
        data = self._library.message(count)
        scale = 2.0 ** _RANGE[self._sizes.dtype][0]
        for begin, end in _pieces(count):
            data[begin:end] = scale * self._library.random(end - begin)
        return data


def contribution(index: Any, rank: int, world: int) -> Any:
    """A rank's elements of those numbers: a weight where the rank takes part, else 0."""
    return ((index + rank) % world < _takers(index, world)) * _weight(index)


def total(index: Any, world: int) -> Any:
    """Their sum over all ranks: as many ranks take part as ``_takers`` says, whatever the world size."""
    return _takers(index, world) * _weight(index)


def host_bytes(ranks: int) -> int:
    """The share of one of ``ranks`` in what is free of the host's memory and within its container's limit."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
            break
    else:
        raise WorkloadError("program allreduce: /proc/meminfo does not say how much memory is available")
    try:
        limit = _MEMORY_LIMIT.read_text().strip()
        used = int(_MEMORY_LIMIT.with_name("memory.current").read_text())
    except OSError:
        limit = ""
    if limit.isdigit():
        available = min(available, max(0, int(limit) - used))
    return int(available * _SPARE / ranks)


def _takers(index: Any, world: int) -> Any:
    return 1 + index % min(16, world)


def _weight(index: Any) -> Any:
    # At most 5 * 16 = 80: exact in bfloat16, in any order of summation.
    return 1 + index % 5


def _fill(messages: Sequence[Any], sources: Sequence[Any]) -> None:
    for message, source in zip(messages, sources, strict=True):
        message[:] = source


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, _CHECKED_AT_ONCE):
        yield begin, min(count, begin + _CHECKED_AT_ONCE)
