"""Bytes that a strategy sends per step, from the sizes of what it hands to collectives.

Bytes on the wire are those of the bandwidth-optimal algorithm (ring) of each collective: n workers send
2(n-1)/n x S for an all-reduce of S bytes, (n-1) x S for an all-gather of S bytes each, (n-1)/n x S for a
reduce-scatter of S bytes. R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
in MPICH", 2005, section 4.
"""

from collections.abc import Mapping, Sequence

from scalecurve_api.record.rank import Traffic

FP32 = 4


def all_reduced(elements: int, workers: int, element_bytes: int = FP32, how: str = "by size: all-reduce") -> Traffic:
    """Compute the traffic of every gradient all-reduced once, in ``element_bytes`` each."""
    payload = elements * element_bytes
    return _traffic(payload, 2 * (workers - 1) / workers * payload, elements, how)


def all_gathered(payload: float, elements: int, workers: int, how: str) -> Traffic:
    """Compute the traffic of each worker's compressed gradients sent to all others; ``payload`` is its bytes a step."""
    return _traffic(payload, (workers - 1) * payload, elements, how)


def zero1(elements: int, workers: int) -> Traffic:
    """Compute the traffic of gradients all-reduced, then each worker's share of the parameters broadcast to others."""
    size = elements * FP32
    # A pipelined broadcast of S bytes passes S bytes through every worker but the last.
    wire = 2 * (workers - 1) / workers * size + (workers - 1) / workers * size
    return _traffic(2 * size, wire, elements, "by size: all-reduce of gradients, broadcast of parameters")


def fsdp(gathered: list[tuple[int, int]], elements: int, mesh: Sequence[int], parameter_bytes: int) -> Traffic:
    """Compute the traffic of all-gathers of parameters and reduce-scatter of fp32 gradients.

    Between replicas, each shard's gradients are all-reduced.

    ``gathered`` has, for every group of parameters, its elements and how often a step gathers them; ``mesh`` the
    workers that share one copy of the model, and before it, with HSDP, the number of copies.
    """
    *copies, sharing = mesh
    payload = sum(count * times for count, times in gathered) * parameter_bytes + elements * FP32
    how = "by size: all-gathers of parameters, reduce-scatter of gradients"
    sent = _traffic(payload, (sharing - 1) / sharing * payload, elements, how)
    if not copies:
        return sent
    shard = elements * FP32 / sharing
    return _more(sent, shard, 2 * (copies[0] - 1) / copies[0] * shard, "all-reduce between replicas", plain=False)


def add_buffers(sent: Traffic, size: int, workers: int) -> Traffic:
    """Add rank 0's buffers, ``size`` bytes, broadcast before every forward pass (pipelined, as in :func:`zero1`)."""
    return _more(sent, size, (workers - 1) / workers * size, "broadcast of buffers")


def add_synchronized_norms(sent: Traffic, channels: Sequence[int], workers: int) -> Traffic:
    """Add what synchronized batch norms exchange, each of so many channels.

    As torch has it: mean, inverse deviation and count all-gathered in the forward pass, two sums all-reduced in the
    backward pass, all of them in fp32.
    """
    gathered = sum(2 * each + 1 for each in channels) * FP32
    reduced = sum(2 * each for each in channels) * FP32
    wire = (workers - 1) * gathered + 2 * (workers - 1) / workers * reduced
    return _more(sent, gathered + reduced, wire, "statistics of batch norms")


def observed(sizes: Mapping[str, float], elements: int, workers: int) -> Traffic:
    """Sum what was seen in a step: bytes handed to each collective, by its name, as ``nccl:all_reduce``."""
    wire = sum(size * _wire_ratio(kind, workers) for kind, size in sizes.items())
    return _traffic(sum(sizes.values()), wire, elements, "observed as torch calls them")


def _wire_ratio(kind: str, workers: int) -> float:
    """Bytes on the wire of a byte that a collective is handed."""
    if "reduce_scatter" in kind or "broadcast" in kind or "all_to_all" in kind:
        return (workers - 1) / workers
    if "all_reduce" in kind or "allreduce" in kind:
        return 2 * (workers - 1) / workers
    return float(workers - 1) if "gather" in kind else 1.0


def _traffic(payload: float, wire: float, elements: int, how: str) -> Traffic:
    plain = float(elements * FP32)
    return Traffic(payload_bytes=float(payload), wire_bytes=float(wire), plain_payload_bytes=plain, how=how)


def _more(sent: Traffic, payload: float, wire: float, how: str, plain: bool = True) -> Traffic:
    """And ``payload`` bytes more, ``wire`` of them on the wire; ``plain``: also of the plain all-reduce."""
    if not payload:
        return sent
    return Traffic(
        payload_bytes=sent.payload_bytes + payload,
        wire_bytes=sent.wire_bytes + wire,
        plain_payload_bytes=sent.plain_payload_bytes + (payload if plain else 0),
        how=f"{sent.how}, {how}",
    )
