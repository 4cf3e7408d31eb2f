"""Step times of the slowest rank over the repetitions of each point, as a table."""

from collections.abc import Sequence
from statistics import median

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.bundle.step_summary import Digests, StepDigest
from scalecurve.bundle.steps import QUANTILES
from scalecurve.render.table import Column, Table, experiment_column

_SHOWN = ((0.05, "5 %", "p5"), (0.5, "Median", "median"), (0.95, "95 %", "p95"), (0.99, "99 %", "p99"))


def step_table(series: Sequence[MeasuredSeries], digests: Digests) -> Table:
    """One row per point: quantiles of the slowest rank's step (the median over repetitions), and who is slowest."""
    columns = (
        experiment_column(curve.bundle for curve in series),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout"),
        Column("steps", "Timed steps", "count"),
        *(Column(f"{name}_ms", title, "number", "ms") for _, title, name in _SHOWN),
        Column("max_ms", "Longest", "number", "ms"),
        Column("waiting", "Wait for slowest rank", "percent"),
        Column("often_slowest", "Most often slowest"),
    )
    rows = []
    for curve, p in ((each, p) for each in series for p in each.points):
        keys = [(curve.bundle, trial.name) for trial in p.trials]
        if summaries := [digests.of[key] for key in keys if key in digests.of]:
            rows.append((curve.bundle, curve.name, p.point.workers, p.point.layout, *_numbers(summaries)))
    notes = ("Step times are the slowest rank's; quantiles are the median over repetitions.",) if rows else ()
    return Table("steps", "Step times", columns, tuple(rows), notes)


def _numbers(digests: Sequence[StepDigest]) -> tuple[int | float | str | None, ...]:
    shown = [QUANTILES.index(quantile) for quantile, _, _ in _SHOWN]
    quantiles = [median(digest.slowest[index] for digest in digests) * 1e3 for index in shown]
    waiting = [digest.stragglers.cost for digest in digests if digest.stragglers]
    return (
        sum(digest.steps for digest in digests),
        *quantiles,
        max(digest.slowest[-1] for digest in digests) * 1e3,
        median(waiting) if waiting else None,
        _slowest(digests),
    )


def _slowest(digests: Sequence[StepDigest]) -> str:
    ranks = len(digests[0].ranks)
    if ranks == 1 or any(len(digest.ranks) != ranks for digest in digests):
        return ""
    shares = [sum(digest.slowest_share[rank] for digest in digests) / len(digests) for rank in range(ranks)]
    rank = max(range(ranks), key=lambda index: (shares[index], -index))
    return f"rank {rank}: {shares[rank] * 100:.0f} %"
