"""Who waits for whom in collectives, from the time that ranks spend in the same calls."""

from __future__ import annotations

from scalecurve_api.record.step_trace import CollectiveTime
from scalecurve_api.record.trace_kernels import TraceEvent
from scalecurve_api.record.trace_skew import Waited, calls_of, waited, with_waits


def reduces(*spans: tuple[int, int, int]) -> list[TraceEvent]:
    """Of (start, ns, bytes)."""
    return [TraceEvent("gloo:all_reduce", start, start + ns, 1, bytes=size) for start, ns, size in spans]


def test_the_last_rank_is_in_a_call_for_the_shortest_time_on_any_clock() -> None:
    early = calls_of(reduces((0, 100, 8), (200, 50, 8)), "cpu")
    late = calls_of(reduces((1_000_080, 20, 8), (1_000_230, 20, 8)), "cpu")
    assert waited([early, late], 0) == {"all-reduce": Waited(80 + 30, 0)}
    assert waited([early, late], 1) == {"all-reduce": Waited(0, 2)}


def test_calls_are_matched_by_size() -> None:
    """Two gradients at once may begin in another order on another rank."""
    first = calls_of(reduces((0, 10, 8), (11, 100, 16)), "cpu")
    second = calls_of(reduces((0, 90, 16), (1, 10, 8)), "cpu")
    assert waited([first, second], 0) == {"all-reduce": Waited(10, 1)}


def test_waiting_in_two_calls_at_once_counts_once() -> None:
    """Buckets of gradients that are under way together wait for the same late rank."""
    early = calls_of(reduces((0, 100, 8), (10, 95, 16)), "cpu")
    late = calls_of(reduces((80, 20, 8), (82, 23, 16)), "cpu")
    assert waited([early, late], 0) == {"all-reduce": Waited(82, 0)}


def test_what_cannot_be_matched_or_does_not_synchronize_is_not_known() -> None:
    broadcast = TraceEvent("gloo:broadcast", 0, 9, 1, bytes=8)
    several = calls_of([*reduces((0, 5, 8), (9, 5, 8)), broadcast], "cpu")
    assert waited([several, calls_of([*reduces((0, 5, 8)), broadcast], "cpu")], 0) == {}
    assert waited([several], 0) == {}
    assert waited([several, {}], 1) == {}


def test_a_gpu_waits_in_its_kernels() -> None:
    host = TraceEvent("nccl:all_reduce", 0, 3, 1, on_device=False, bytes=4000)
    ranks = [calls_of([host, TraceEvent("ncclDevKernel_AllReduce", 10, 10 + ns, 7, True)], "cuda") for ns in (70, 30)]
    assert [waited(ranks, rank)["all-reduce"] for rank in (0, 1)] == [Waited(40, 0), Waited(0, 1)]


def test_only_what_is_known_is_added() -> None:
    rows = [CollectiveTime(name=name, calls=1, bytes=8, ns=9) for name in ("all-reduce", "broadcast")]
    assert [(row.waited_ns, row.last) for row in with_waits(rows, {"all-reduce": Waited(4, 1)})] == [
        (4, 1),
        (None, None),
    ]
