"""Time of collectives by message size with nccl-tests' conventions, for any collective library.

Iterations follow one another without a barrier, as in nccl-tests: each call lines the ranks up for the next, and its
time is from the end of the one before. All-reduce and broadcast are timed in place, the others out of place.
"""

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from scalecurve_api.features.collectives.facts import ALLREDUCE, COLLECTIVES, AllReduceRow, CollectiveRow
from scalecurve_api.features.collectives.fields import Sizes
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_api.record.journal import NO_LOSS, StepRow
from scalecurve_api.record.rank import Window, WindowKind
from scalecurve_worker.features.collectives.results import UNTOUCHED, got_out, put_in
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.record.session import Session
from scalecurve_worker.steps.timing import Clock, UnixTime

# By type: the power of two that data begin at, and how often they may then double before they overflow.
_RANGE = {"float32": (-110, 225), "bfloat16": (-110, 225), "float16": (-8, 19)}
_CHECKED_AT_ONCE = 1 << 22
_CONVENTIONS = "nccl-tests: algbw = bytes/time, busbw = algbw*2(n-1)/n, 1 GB = 1e9 bytes, slowest rank"
_OF_EACH = (
    "nccl-tests: algbw = bytes/time, busbw = algbw by the factor of each collective, 1 GB = 1e9 bytes, slowest rank"
)
_SPARE = 0.9
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


class TimedCall(NamedTuple):
    """A collective, and what carries it out: called with what a rank sends and room for what it gets.

    Both are one array where the collective is in place. Every rank calls.
    """

    collective: Collective
    carry: Callable[[Any, Any], object]
    granule: int = 1
    """Messages have a multiple of so many elements."""


class Library(Protocol):
    """Where messages lie. Arrays are torch's or numpy's."""

    element_bytes: int
    copies: int  # how often a message has to fit into memory

    def available_bytes(self) -> int:
        """Return the bytes of memory that this rank may fill with messages."""

    def message(self, count: int) -> Any:
        """Allocate room for so many elements, with any content."""

    def indices(self, begin: int, end: int) -> Any:
        """Return whole numbers from ``begin`` up to ``end``, where messages lie."""

    def random(self, count: int) -> Any:
        """Return numbers of a normal distribution, different ones on each rank."""

    def clock(self, unix: UnixTime) -> Clock:
        """Return the clock that tells when a collective ended."""


class Messages(NamedTuple):
    """What is measured together as one line: bytes of each message, sent one after another."""

    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)


def whole_step(elements: Sequence[int], granule_bytes: int, element: int) -> list[Messages]:
    """Return a model's messages: every size that occurs by itself, ascending, and then all as one step sends them.

    Bytes are rounded up to multiples of ``granule_bytes``.
    """
    sizes = tuple(-(-count * element // granule_bytes) * granule_bytes for count in elements)
    return [*(Messages((size,)) for size in sorted(set(sizes))), Messages(sizes)]


def message_sizes(sizes: Sizes, granule_bytes: int, available: int) -> tuple[list[int], list[int]]:
    """Return message sizes in bytes, multiples of ``granule_bytes``: those that fit ``available``, and the rest."""
    fitting: list[int] = []
    left_out: list[int] = []
    size = sizes.min_bytes
    while size <= sizes.max_bytes:
        rounded = max(size // granule_bytes, 1) * granule_bytes
        into = fitting if rounded <= available else left_out
        if rounded not in into:
            into.append(rounded)
        size *= sizes.factor
    return fitting, left_out


def row_of(
    messages: Messages, times_ns: list[int], world: int, errors: int, collective: Collective = Collective.all_reduce
) -> CollectiveRow:
    """Summarize one line of the table, from the slowest rank's time at each iteration in ns.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    median_ns = statistics.median(times_ns)
    algbw = messages.total / median_ns
    return CollectiveRow(
        collective=collective,
        bytes=messages.total,
        messages=len(messages.sizes),
        in_place=collective.in_place,
        iterations=len(times_ns),
        time_us_median=median_ns / 1e3,
        time_us_min=min(times_ns) / 1e3,
        time_us_p95=sorted(times_ns)[math.ceil(0.95 * len(times_ns)) - 1] / 1e3,
        algbw=algbw,
        busbw=algbw * collective.bus_factor(world),
        errors=errors,
    )


def granule_of(algorithm: AllReduce, per_node: int) -> int:
    """Return the granule of a message in elements: each worker of a node takes an equal share of it."""
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


class Buffers(NamedTuple):
    """What a rank sends, and room for what it gets: one array where the collective is in place."""

    sent: Any
    received: Any


class Benchmark:
    """All sizes on one rank; ``elements`` are those of a model's messages, where they are to be sent."""

    def __init__(self, sizes: Sizes, library: Library, session: Session, elements: Sequence[int] | None = None) -> None:
        self._sizes, self._library, self._session, self._elements = sizes, library, session, elements
        self._world, self._rank = session.communicator.world, session.communicator.rank
        self._step = self._index = 0
        session.facts.options |= {
            "dtype": sizes.dtype,
            "conventions": _CONVENTIONS,
            "payload": sizes.payload.value,
            "leftOutBytes": [],
            "iterations": sizes.iterations,
        }

    def all_reduce(self, operation: TimedCall) -> None:
        """Measure all-reduces alone, for ``program: allreduce``."""
        kept = AllReduceRow.model_fields
        for row in self._rows(operation):
            ALLREDUCE.extend(self._session.facts, [AllReduceRow(**{name: getattr(row, name) for name in kept})])

    def collectives(self, operations: Sequence[TimedCall]) -> None:
        """Measure each of them, one after another."""
        self._session.facts.options["conventions"] = _OF_EACH
        for operation in operations:
            COLLECTIVES.extend(self._session.facts, self._rows(operation))

    def _rows(self, operation: TimedCall) -> Iterator[CollectiveRow]:
        lines, left_out = self._plan(operation)
        noted = self._session.facts.options["leftOutBytes"]
        noted += [size for size in left_out if size not in noted]
        wrong: dict[int, int] = {}
        for messages in lines:
            for size in messages.sizes:
                if size not in wrong:
                    errors = self._check(operation, self._count(size))
                    wrong[size] = sum(self._session.communicator.all_gather(errors))
            times = self._time(operation, [self._count(size) for size in messages.sizes])
            slowest = [max(each) for each in zip(*self._session.communicator.all_gather(times), strict=True)]
            errors = sum(wrong[size] for size in messages.sizes)
            yield row_of(messages, slowest, self._world, errors, operation.collective)

    def _plan(self, operation: TimedCall) -> tuple[list[Messages], list[int]]:
        library = self._library
        available = min(self._session.communicator.all_gather(library.available_bytes())) // library.copies
        granule_bytes = library.element_bytes * operation.granule
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

    def _check(self, operation: TimedCall, count: int) -> int:
        """Elements that differ from the result worked out by hand, which every type holds exactly."""
        library, kind, share = self._library, operation.collective, max(1, count // self._world)
        pair = self._pair(kind, count)
        for begin, end in _pieces(kind.received(count, self._world)):
            pair.received[begin:end] = UNTOUCHED
        for begin, end in _pieces(kind.sent(count, self._world)):
            pair.sent[begin:end] = put_in(kind, library.indices(begin, end), self._rank, self._world, share)
        operation.carry(*pair)
        return sum(
            int((pair.received[begin:end] != self._right(kind, begin, end, share)).sum())
            for begin, end in _pieces(kind.received(count, self._world))
        )

    def _right(self, kind: Collective, begin: int, end: int, share: int) -> Any:
        return got_out(kind, self._library.indices(begin, end), self._rank, self._world, share)

    def _pair(self, kind: Collective, count: int) -> Buffers:
        sent = self._library.message(kind.sent(count, self._world))
        return Buffers(sent, sent if kind.in_place else self._library.message(kind.received(count, self._world)))

    def _time(self, operation: TimedCall, counts: Sequence[int]) -> list[int]:
        clock = self._library.clock(self._session.unix)
        kind, carry = operation.collective, operation.carry
        sources = [self._random_data(kind.sent(count, self._world)) for count in counts]
        pairs = [self._pair(kind, count) for count in counts]
        for _ in range(self._sizes.warmup):
            _fill(pairs, sources)
            for pair in pairs:
                carry(*pair)
        times: list[int] = []
        opened, wall_ns, first = 0, 0, self._step
        while len(times) < self._sizes.iterations:
            begun, spent, some = self._group(clock, operation, pairs, sources, self._sizes.iterations - len(times))
            opened = opened or begun
            wall_ns += spent
            times += some
        facts = self._session.facts
        facts.first_step_ns = facts.first_step_ns or opened
        window = Window(
            index=self._index,
            kind=WindowKind.train,
            open_ns=opened,
            wall_ns=wall_ns,
            first_step=first,
            steps=len(times),
            samples=0,
        )
        facts.windows.append(window)
        self._index += 1
        return times

    def _group(
        self, clock: Clock, operation: TimedCall, pairs: Sequence[Buffers], sources: Sequence[Any], most: int
    ) -> tuple[int, int, list[int]]:
        """As many iterations as fresh data stay finite for: infinities would toggle fewer bits than numbers do."""
        carry = operation.carry
        _fill(pairs, sources)
        clock.synchronize()
        self._session.communicator.barrier()
        # These line the ranks up, and are not timed.
        for pair in pairs:
            carry(*pair)
        opened = clock.open()
        for _ in range(min(most, self._finite_for(operation.collective))):
            for pair in pairs:
                carry(*pair)
            clock.mark()
        wall_ns = clock.close()
        spans = clock.finished()
        self._session.recorder.append(
            StepRow(self._step + i, self._index, span.start_ns, span.duration_ns, 0, NO_LOSS)
            for i, span in enumerate(spans)
        )
        self._step += len(spans)
        return opened, wall_ns, [span.duration_ns for span in spans]

    def _finite_for(self, collective: Collective) -> int:
        """Calls on the same data, after the one that lines the ranks up; sums in place grow with each of them."""
        if collective is not Collective.all_reduce:
            return self._sizes.iterations
        return max(1, int(_RANGE[self._sizes.dtype][1] / max(1.0, math.log2(self._world))) - 1)

    def _random_data(self, count: int) -> Any:
        data = self._library.message(count)
        scale = 2.0 ** _RANGE[self._sizes.dtype][0]
        for begin, end in _pieces(count):
            data[begin:end] = scale * self._library.random(end - begin)
        return data


def host_bytes(ranks: int) -> int:
    """Return one rank's share of the bytes that are free in the host's memory and within its container's limit."""
    match = re.search(r"^MemAvailable: *([0-9]+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if match is None:
        raise WorkloadError("program allreduce: /proc/meminfo does not say how much memory is available")
    available = int(match[1]) * 1024
    with suppress(OSError, ValueError):  # no such file, or "max"
        limit = int(_MEMORY_LIMIT.read_text())
        used = int(_MEMORY_LIMIT.with_name("memory.current").read_text())
        available = min(available, max(0, limit - used))
    return int(available * _SPARE / ranks)


def _fill(pairs: Sequence[Buffers], sources: Sequence[Any]) -> None:
    for pair, source in zip(pairs, sources, strict=True):
        pair.sent[:] = source


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, _CHECKED_AT_ONCE):
        yield begin, min(count, begin + _CHECKED_AT_ONCE)
