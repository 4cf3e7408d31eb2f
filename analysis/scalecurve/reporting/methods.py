"""How each number of a report was obtained, in sentences: the definitions, the intervals, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator

from scalecurve.reporting.findings import Findings
from scalecurve.statistics import Method

_INTERVALS = {
    Method.REPETITIONS: "Student's t on the repetitions' seconds per sample (log scale)",
    Method.WELCH: "Welch's t on the repetitions' seconds per sample (log scale)",
    Method.WITHIN_RUN: "windows of a single run, which says nothing of how another run would differ",
}


def methods(findings: Findings) -> Iterator[str]:
    """Only what this report uses."""
    points = [p for series in findings.scaling.series for p in series.measured]
    if points:
        yield (
            "Throughput is samples over wall time of the timed windows, over all workers; a window opens and closes "
            "with a barrier and a device synchronize, and its wall time is the slowest rank's. It is never a mean of "
            "rates and never one rank's."
        )
        yield (
            "Speed-up is S(N) = T(N)/T(N0), efficiency E(N) = S(N)·N0/N, for strong and weak scaling alike; the "
            "baseline N0 stands in the table."
        )
        used = sorted({p.throughput.method for p in points if p.throughput}, key=list(Method).index)
        ratios = {p.speedup.method for p in points if p.speedup} & {Method.WELCH}
        spelled = "; ".join(_INTERVALS[method] for method in [*used, *ratios] if method in _INTERVALS)
        levels = sorted({p.throughput.level for p in points if p.throughput})
        level = " and ".join(f"{level * 100:g} %" for level in levels)
        if spelled:
            yield (
                f"Intervals are {level} intervals for one point at a time: {spelled}. The repetition is the unit, for "
                "steps and windows of one run share its clocks, placement and neighbours."
            )
    if any(p.exposed_s for p in points):
        yield (
            "Exposed communication is step time less step time with the all-reduce taken out, in alternated windows of "
            "the same trials with the same batch (paired t); the method's name stands under Environment."
        )
    if any(p.mfu for p in points):
        yield "MFU is FLOPs of training (1 multiply-add = 2 FLOPs) over the device's dense peak in this precision."
    if any(p.energy_j for p in points):
        yield "Energy is the devices' own counters over the timed windows; hosts, networks and cooling are not in it."
    if findings.costs.known:
        yield (
            "Time of an epoch is its samples over throughput; cost is time × workers × the price of a worker's hour. "
            "A count is called as cheap or as fast within noise when its interval reaches into the best one's."
        )
    if findings.allreduce.points:
        yield (
            "All-reduce: algbw = bytes/time, busbw = algbw·2(n-1)/n, GB = 1e9 bytes, time of the slowest rank, results "
            "checked against a sum worked out by hand (the conventions of nccl-tests)."
        )
    if findings.digests.rows:
        yield (
            f"Step times come from {findings.digests.rows:,} rows in {len(findings.digests.of):,} tables, each checked "
            "against its sha256. Diagnosis lists only what exceeds noise, autocorrelation included, and is large "
            "enough to matter."
        )
    yield "Only Succeeded trials enter a curve. Records are checked against their digest when they are read."
