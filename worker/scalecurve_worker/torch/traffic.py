"""Bytes that a strategy sends per step, from the sizes of what it hands to collectives.

Bytes on the wire are those of the bandwidth-optimal algorithm (ring) of each collective: n workers send
2(n-1)/n x S for an all-reduce of S bytes, (n-1) x S for an all-gather of S bytes each, (n-1)/n x S for a
reduce-scatter of S bytes. R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
in MPICH", 2005, section 4.
"""

from collections.abc import Sequence

from scalecurve_api.record.rank import Traffic

FP32 = 4


def all_reduced(elements: int, workers: int, element_bytes: int = FP32, how: str = "by size: all-reduce") -> Traffic:
    """Every gradient all-reduced once, in ``element_bytes`` each."""
    payload = float(elements * element_bytes)
    return Traffic(
        payload_bytes=payload,
        wire_bytes=2 * (workers - 1) / workers * payload,
        plain_payload_bytes=float(elements * FP32),
        how=how,
    )


def all_gathered(payload: float, elements: int, workers: int, how: str) -> Traffic:
    """Every worker's compressed gradients sent to all others; ``payload`` is one worker's bytes a step."""
    return Traffic(
        payload_bytes=payload,
        wire_bytes=(workers - 1) * payload,
        plain_payload_bytes=float(elements * FP32),
        how=how,
    )


def with_buffers(sent: Traffic, size: int, workers: int) -> Traffic:
    """And rank 0's buffers, ``size`` bytes, broadcast before every forward pass (pipelined, as in :func:`zero1`)."""
    if not size:
        return sent
    return _more(sent, float(size), (workers - 1) / workers * size, "broadcast of buffers")


def with_synchronized_norms(sent: Traffic, channels: Sequence[int], workers: int) -> Traffic:
    """And what synchronized batch norms exchange, each of so many channels.

    As torch has it: mean, inverse deviation and count all-gathered in the forward pass, two sums all-reduced in the
    backward pass, all of them in fp32.
    """
    if not channels:
        return sent
    gathered = float(sum(2 * each + 1 for each in channels) * FP32)
    reduced = float(sum(2 * each for each in channels) * FP32)
    wire = (workers - 1) * gathered + 2 * (workers - 1) / workers * reduced
    return _more(sent, gathered + reduced, wire, "statistics of batch norms")


def _more(sent: Traffic, payload: float, wire: float, how: str) -> Traffic:
    return Traffic(
        payload_bytes=sent.payload_bytes + payload,
        wire_bytes=sent.wire_bytes + wire,
        plain_payload_bytes=sent.plain_payload_bytes + payload,
        how=f"{sent.how}, {how}",
    )


def zero1(elements: int, workers: int) -> Traffic:
    """Gradients all-reduced, then every worker's share of the parameters broadcast to all others."""
    size = float(elements * FP32)
    return Traffic(
        payload_bytes=2 * size,
        # A pipelined broadcast of S bytes passes S bytes through every worker but the last.
        wire_bytes=2 * (workers - 1) / workers * size + (workers - 1) / workers * size,
        plain_payload_bytes=size,
        how="by size: all-reduce of gradients, broadcast of parameters",
    )


def fsdp(gathered: list[tuple[int, int]], elements: int, workers: int, parameter_bytes: int) -> Traffic:
    """All-gathers of parameters and reduce-scatter of fp32 gradients.

    ``gathered`` has, for every group of parameters, its elements and how often a step gathers them.
    """
    parameters = sum(count * times for count, times in gathered) * parameter_bytes
    gradients = elements * FP32
    return Traffic(
        payload_bytes=float(parameters + gradients),
        wire_bytes=(workers - 1) / workers * (parameters + gradients),
        plain_payload_bytes=float(elements * FP32),
        how="by size: all-gathers of parameters, reduce-scatter of gradients",
    )
