"""A line of a microbenchmark's table, in nccl-tests' conventions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.record.fact_kind import Bounds, FactKind, Recorded
from scalecurve_api.spec.trial import TrialSpec


class AllReduceRow(Model):
    """One message size of the microbenchmark, in nccl-tests' conventions.

    Times are of the slowest rank, in microseconds; ``algbw`` = bytes/time and ``busbw`` = algbw*2(n-1)/n in GB/s
    (1 GB = 1e9 bytes), from the median.
    """

    bytes: Int64
    in_place: bool
    iterations: Int64
    time_us_median: float
    time_us_min: float
    time_us_p95: float
    algbw: float
    busbw: float
    errors: Int64 = Field(description="elements that differ from the result worked out by hand")
    messages: Int64 = Field(default=1, description="calls one after another: the gradients of a full step")


class CollectiveRow(AllReduceRow):
    """The same of any collective, whose busbw is ``algbw`` times its ``bus_factor``; ``tool`` is what timed it."""

    collective: Collective
    tool: Text = "scalecurve"


def _summary(trial: TrialSpec, rank: Recorded) -> Mapping[str, Any]:
    return {"peak_busbw": max((row.busbw for row in (*ALLREDUCE.of(rank), *COLLECTIVES.of(rank))), default=None)}


_BOUNDS: Final[Bounds] = {
    "": {
        "bytes": (1, 1e15),
        **dict.fromkeys(("time_us_median", "time_us_p95"), (1e-6, 1e15)),
        **dict.fromkeys(("algbw", "busbw"), (0, 1e9)),
    }
}
ALLREDUCE: FactKind[Sequence[AllReduceRow]] = FactKind(
    "allreduce", list[AllReduceRow], (), bounds=_BOUNDS, summary=_summary, is_result=True
)
COLLECTIVES: FactKind[Sequence[CollectiveRow]] = FactKind(
    "collectives", list[CollectiveRow], (), bounds=_BOUNDS, is_result=True
)
