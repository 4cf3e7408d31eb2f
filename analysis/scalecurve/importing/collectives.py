"""One row of an all-reduce benchmark, by nccl-tests' conventions, whatever tool wrote it down."""

import math
from collections.abc import Iterable

from scalecurve.importing.reading import SourceError
from scalecurve_api.record.collective_row import AllReduceRow
from scalecurve_api.text import count

_SURE_GB_S = 1.0  # bandwidths are printed with two decimals: ratios of smaller ones say little
_TOLERANCE = 0.04
Printed = tuple[float, float]


def allreduce_row(
    size: int,
    time_us: float,
    workers: int,
    *,
    in_place: bool,
    iterations: int = 1,
    errors: int = 0,
    least_us: float | None = None,
    p95_us: float | None = None,
) -> AllReduceRow:
    """Bandwidths are worked out from the time; a tool that states only the mean states it for every quantile."""
    algbw = size / time_us / 1e3
    return AllReduceRow(
        bytes=size,
        in_place=in_place,
        iterations=max(1, iterations),
        time_us_median=time_us,
        time_us_min=time_us if least_us is None else least_us,
        time_us_p95=time_us if p95_us is None else p95_us,
        algbw=algbw,
        busbw=algbw * 2 * (workers - 1) / workers,
        errors=errors,
    )


def refuse_other_collectives(printed: Iterable[Printed], workers: int, place: str) -> None:
    """Bus bandwidth is 2(n-1)/n of the algorithm's for an all-reduce alone.

    Raises SourceError when the printed (algbw, busbw) have another ratio.
    """
    ratios = [bus / alg for alg, bus in printed if alg >= _SURE_GB_S and bus > 0]
    expected = 2 * (workers - 1) / workers
    if ratios and workers > 1 and not math.isclose(sorted(ratios)[len(ratios) // 2], expected, rel_tol=_TOLERANCE):
        raise SourceError(
            f"{place}: busbw is {sorted(ratios)[len(ratios) // 2]:.3g} of algbw, and {expected:.3g} for an all-reduce "
            f"over {count(workers, 'worker')}: only all-reduces are imported"
        )
