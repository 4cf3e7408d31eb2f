"""What ran in traced steps: from a profiler's events to time by class of kernel, and by collective. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from scalecurve_api.record.step_trace import CollectiveTime, KernelTime, StepTrace

Spans = list[tuple[int, int]]

OPERATIONS = ("aten::", "mkldnn::", "onednn::")
COLLECTIVES = ("gloo:", "nccl:", "mpi:", "ucc:")
NCCL_KERNELS = ("ncclDevKernel", "ncclKernel")  # since NCCL 2.19, and before
OPTIMIZER, OTHER, COPY = "optimizer", "elementwise and other", "copy"
_OPTIMIZER_RANGE = "Optimizer.step#"
_CLASSES = (
    ("attention", r"flash|fmha|attention|scaled_dot_product"),
    ("convolution", r"conv|fprop|dgrad|wgrad|winograd"),
    ("normalization", r"(batch|layer|group|instance|rms)_?norm|bn_[fb]w"),
    ("softmax and loss", r"softmax|nll_loss|cross_entropy|mse_loss"),
    ("matrix product", r"gemm|gemv|cutlass|nvjet|cublas|splitk|matmul|::_?linear|::\w*mm$|::(mv|dot)$"),
    (OPTIMIZER, r"multi_tensor|_foreach_|fused_?(adam|sgd|lamb)"),
    ("pooling", r"pool"),
    ("embedding and indexing", r"embedding|index|gather|scatter"),
    (COPY, r"copy|clone|contiguous|::cat|catarray|memcpy|memset|fill|zero_"),
    ("reduction", r"reduce|::(sum|mean|norm|amax|amin|max|min|all|any)\b"),
)
_PATTERNS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _CLASSES)
_KINDS = (
    ("all-reduce", "allreduce"),
    ("reduce-scatter", "reducescatter"),
    ("all-gather", "allgather"),
    ("all-to-all", "alltoall"),
    ("broadcast", "broadcast"),
    ("send and receive", "sendrecv"),
    ("send and receive", "send"),
    ("send and receive", "recv"),
    ("reduce", "reduce"),
)


class TraceEvent(NamedTuple):
    """One event of a profiler; times in ns of one clock. ``bytes`` are those of a collective's tensors."""

    name: str
    start: int
    end: int
    thread: int = 0
    on_device: bool = False
    bytes: int = 0


def kernel_class(name: str) -> str:
    """``matrix product`` of ``aten::addmm`` or of a GPU's ``sm90_xmma_gemm_bf16bf16...``."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), OTHER)


def collective_kind(name: str) -> str:
    """``all-reduce`` of ``gloo:all_reduce`` or ``ncclDevKernel_AllReduce_Sum_f32_RING_LL``."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for kind, word in _KINDS if word in plain), name)


def is_collective(name: str) -> bool:
    """Whether the host's event of this name is a collective that carries data."""
    return name.startswith(COLLECTIVES) and not name.endswith(("barrier", ":coalesced"))


def merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """The same time as spans that neither touch nor overlap, in order."""
    result: Spans = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif end > start:
            result.append((start, end))
    return result


def alone(spans: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> int:
    """Nanoseconds that lie in one of the spans, and in none of the others; spans are (start, end)."""
    busy = merged(others)
    return _length(merged([*spans, *busy])) - _length(busy)


def summarize(events: Sequence[TraceEvent], device: Literal["cpu", "cuda"], steps: int, wall_ns: int) -> StepTrace:
    """The time of ``steps`` steps, which took ``wall_ns``, by what ran in them."""
    own = own_times(events) if device == "cpu" else _sum_kernel_times(events)
    busy = _spans(events, device)
    collectives: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for event in events:
        if event.on_device and event.name.startswith(NCCL_KERNELS):
            collectives[collective_kind(event.name)][2] += event.end - event.start
        elif not event.on_device and is_collective(event.name):
            entry = collectives[collective_kind(event.name)]
            entry[0] += 1
            entry[1] += event.bytes
            entry[2] += event.end - event.start if device == "cpu" else 0
    computing, copies, communication = busy
    exposed, copied = alone(communication, [*computing, *copies]), alone(copies, computing)
    used = _length(merged(computing))
    return StepTrace(
        steps=steps,
        wall_ns=wall_ns,
        device=device,
        computing_ns=used,
        copy_ns=copied,
        exposed_ns=exposed,
        idle_ns=max(0, wall_ns - used - copied - exposed),
        communication_ns=_length(merged(communication)),
        kernels=own,
        collectives=[
            CollectiveTime(name=name, calls=calls, bytes=size, ns=ns)
            for name, (calls, size, ns) in sorted(collectives.items(), key=lambda entry: -entry[1][2])
        ],
    )


def exposed_share(trace: StepTrace) -> float | None:
    """The share of the traced time in which only communication ran; None where none was seen."""
    if not (trace.communication_ns and trace.wall_ns):
        return None
    return min(1.0, trace.exposed_ns / trace.wall_ns)


def own_times(events: Iterable[TraceEvent]) -> list[KernelTime]:
    """Operations of the host by class, each without those inside of it; what an optimizer calls is its own."""
    threads: defaultdict[int, list[TraceEvent]] = defaultdict(list)
    for event in events:
        if not event.on_device and not event.name.startswith(COLLECTIVES):
            threads[event.thread].append(event)
    calls: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for thread in threads.values():
        inside: list[tuple[TraceEvent, str | None]] = []  # that have begun, with the class that their own time is of
        for event in sorted(thread, key=lambda each: (each.start, -each.end)):
            while inside and inside[-1][0].end <= event.start:
                inside.pop()
            stepping = any(outer.name.startswith(_OPTIMIZER_RANGE) for outer, _ in inside)
            kind = (OPTIMIZER if stepping else kernel_class(event.name)) if _computes(event) else None
            took = event.end - event.start
            if inside and inside[-1][1] is not None:
                times[inside[-1][1]] -= took
            if kind is not None:
                times[kind] += took
                calls[kind] += 1
            inside.append((event, kind))
    return [KernelTime(name=name, calls=calls[name], ns=max(0, ns)) for name, ns in times.most_common()]


def _sum_kernel_times(events: Iterable[TraceEvent]) -> list[KernelTime]:
    calls: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for event in events:
        if event.on_device and not event.name.startswith(NCCL_KERNELS):
            kind = kernel_class(event.name)
            calls[kind] += 1
            times[kind] += event.end - event.start
    return [KernelTime(name=name, calls=calls[name], ns=ns) for name, ns in times.most_common()]


def _spans(events: Iterable[TraceEvent], device: Literal["cpu", "cuda"]) -> tuple[Spans, Spans, Spans]:
    """Of computing, of copies by a GPU's engines, and of communication."""
    computing: Spans = []
    copies: Spans = []
    communication: Spans = []
    for event in events:
        span = (event.start, event.end)
        if device == "cuda":
            if event.on_device:
                nccl, copied = event.name.startswith(NCCL_KERNELS), event.name.startswith(("Memcpy", "Memset"))
                (communication if nccl else copies if copied else computing).append(span)
        elif is_collective(event.name):
            communication.append(span)
        elif _computes(event):
            computing.append(span)
    return computing, copies, communication


def _computes(event: TraceEvent) -> bool:
    return event.name.startswith(OPERATIONS)


def _length(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)
