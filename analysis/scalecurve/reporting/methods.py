"""How each number of a report was obtained: definitions and intervals, in sentences."""

from collections.abc import Iterator

from scalecurve.render import formatting
from scalecurve.reporting.contributions import contributions
from scalecurve.reporting.findings import Analysis
from scalecurve.statistics.estimate import Method

_INTERVALS = {
    Method.REPETITIONS: "Student's t on the repetitions' seconds per sample (log scale)",
    Method.WELCH: "Welch's t on the repetitions' seconds per sample (log scale)",
    Method.POOLED: "for two repetitions the larger variance of point and curve, on the curve's degrees of freedom",
    Method.SESSIONS: "Student's t on the sessions' means (log scale), of a variance no less than their repetitions'",
    Method.WITHIN_RUN: "windows of a single run, which does not show run-to-run variation",
}


def methods(analysis: Analysis) -> Iterator[str]:
    """Only what this report uses."""
    points = [p for series in analysis.scaling.series for p in series.measured]
    if any(p.imported for p in points):
        yield (
            "Imported points were measured elsewhere, by programs and methods that ScaleCurve did not observe: nothing "
            "about these runs was checked, and their marks are hollow."
        )
    if any(not p.imported for p in points):
        yield (
            "Throughput is samples divided by wall time of the timed windows, over all workers. A window opens and "
            "closes with a barrier and a device synchronize, and its wall time is that of the slowest rank. It is "
            "never a mean of rates nor the rate of one rank."
        )
    if points and analysis.scaling.compared:
        yield (
            "Speed-up is S(N) = T(N)/T(N0) and efficiency E(N) = S(N)·N0/N, for strong and weak scaling alike; the "
            "table names the baseline N0."
        )
    if points:
        used = sorted({p.throughput.method for p in points if p.throughput}, key=list(Method).index)
        ratios = {p.speedup.method for p in points if p.speedup} & {Method.WELCH}
        spelled = "; ".join(_INTERVALS[method] for method in [*used, *ratios] if method in _INTERVALS)
        levels = sorted({p.throughput.level for p in points if p.throughput})
        level = " and ".join(map(formatting.stated_percent, levels))
        if spelled:
            yield (
                f"Intervals are {level} intervals: {spelled}. A curve's intervals hold one point at a time, not "
                "for all of them at once. The unit of replication is the "
                "repetition, since steps and windows of one run share its clocks, placement and neighbors; with "
                "several sessions it is the session, since repetitions of one share machines and time."
            )
    if any(p.exposed_s for p in points):
        yield (
            "Exposed communication is step time minus step time without the all-reduce, in alternating windows of "
            "the same trials with the same batch (paired t); with the method profiler-pass it is the share of a few "
            "traced steps in which only communication runs. Environment names the method."
        )
    if any(p.mfu for p in points):
        yield (
            "MFU is training FLOPs (1 multiply-add = 2 FLOPs) divided by the device's dense peak in this precision; "
            "HFU also counts what activation checkpointing computes again."
        )
    if any(p.energy_j for p in points):
        yield "Energy comes from the devices' counters over the timed windows, without hosts, networks and cooling."
    if analysis.costs.known:
        yield (
            "Epoch time is samples divided by throughput; cost is time × workers × price of a worker-hour. A count "
            "is as cheap or as fast within noise if its interval overlaps the best one's."
        )
    for contribution in contributions():
        yield from contribution.methods(analysis)
    if rows := analysis.step_summaries.rows:
        yield (
            f"Step times come from {rows:,} rows in {len(analysis.step_summaries.of):,} tables, each checked "
            "against its sha256. Diagnosis lists only what exceeds noise, autocorrelation included, and is large "
            "enough to matter."
        )
    yield "Only Succeeded trials enter a curve. Records are checked against their digest when they are read."
