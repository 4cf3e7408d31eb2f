"""Small step programs, written by hand."""

from collections.abc import Sequence

from scalecurve_api.record.step_program import ComputeSegment, Exchange, StepMemory, StepProgram


def program(
    work: Sequence[tuple[float, Sequence[int]]], exchanges: Sequence[tuple[int, int]], ranks: int = 2, nodes: int = 1
) -> StepProgram:
    """``work`` as (FLOPs, waits), ``exchanges`` as (bytes, after)."""
    return StepProgram(
        strategy="ddp",
        workers=ranks,
        torch="2",
        parameters=1,
        work=[
            ComputeSegment(phase="backward", flops=f, moved_bytes=0, kernels=1, waits=list(waits)) for f, waits in work
        ],
        exchanges=[exchange(size, after=after, ranks=ranks, nodes=nodes) for size, after in exchanges],
        memory=StepMemory(peak=10, parameters=3, gradients=3, optimizer=3),
    )


def exchange(size: int, kind: str = "all-reduce", *, ranks: int = 2, nodes: int = 1, after: int = -1) -> Exchange:
    return Exchange.model_validate(
        {"kind": kind, "bytes": size, "ranks": ranks, "axis": "data", "nodes": nodes, "after": after}
    )
