"""Who waits for whom in collectives: the rank that comes last to a call is in it for the shortest time. Pure.

A call that synchronizes ends on all ranks together, so what a rank is in it longer than the last one is what it waited:
this needs no common clock of hosts.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from scalecurve_api.record.step_trace import CollectiveTime
from scalecurve_api.record.trace_kernels import NCCL_KERNELS, TraceEvent, collective_kind, is_collective, merged

SYNCHRONIZING = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
"""Collectives that no rank leaves before every rank has come; from a broadcast its sender may."""
Calls = Mapping[str, Sequence[Sequence[int]]]
"""Start of each call on the clock of its rank and its length, in ns, by kind and size (``all-reduce 4096``)."""


class Waited(NamedTuple):
    """Of one rank in one kind of collective: ns that it waited for the last rank, and calls that it came last to.

    Time in which it waited in several calls at once counts once.
    """

    ns: int
    last: int


def calls_of(events: Sequence[TraceEvent], device: Literal["cpu", "cuda"]) -> Calls:
    """The calls of one rank that synchronize."""
    calls: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in sorted(events, key=lambda each: each.start):
        if device == "cuda":
            counted = event.on_device and event.name.startswith(NCCL_KERNELS)
        else:
            counted = not event.on_device and is_collective(event.name)
        if counted and (kind := collective_kind(event.name)) in SYNCHRONIZING:
            calls[f"{kind} {event.bytes}"].append((event.start, event.end - event.start))
    return dict(calls)


def waited(of_ranks: Sequence[Calls], rank: int) -> dict[str, Waited]:
    """What ``rank`` waited for others by kind; without kinds whose calls are not the same on every rank."""
    if len(of_ranks) < 2:
        return {}
    spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    last: Counter[str] = Counter()
    different: set[str] = set()
    for key in dict.fromkeys(key for calls in of_ranks for key in calls):
        kind = key.rpartition(" ")[0]
        lists = [calls.get(key, ()) for calls in of_ranks]
        if len({len(each) for each in lists}) > 1:
            different.add(kind)
            continue
        for call in zip(*lists, strict=True):
            start, length = call[rank]
            least = min(each[1] for each in call)
            spans[kind].append((start, start + length - least))
            last[kind] += length == least
    return {
        kind: Waited(sum(end - start for start, end in merged(waits)), last[kind])
        for kind, waits in spans.items()
        if kind not in different
    }


def with_waits(collectives: Sequence[CollectiveTime], waits: Mapping[str, Waited]) -> list[CollectiveTime]:
    """The same collectives, with what was waited in them where that is known."""
    return [
        each.model_copy(update={"waited_ns": waits[each.name].ns, "last": waits[each.name].last})
        if each.name in waits
        else each
        for each in collectives
    ]
