"""The curves as tables: one row a point."""

from collections.abc import Callable, Iterable, Sequence

from scalecurve.bundle.problem import UnusableFile
from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult
from scalecurve.curves.series_matching import identities
from scalecurve.render.table import PENDING, Cell, Column, Table
from scalecurve.statistics.estimate import Estimate

RowOf = Callable[[SeriesResult, PointResult], list[Cell]]

_WHERE = (
    Column("series", "Series"),
    Column("workers", "Workers", "count"),
    Column("layout", "Layout"),
)


def scaling_table(result: ScalingResult) -> Table:
    """Throughput, step time, speed-up and efficiency of every point, with the batch it really used."""
    columns = (
        Column("trials", "Valid trials"),
        Column("throughput", "Throughput", "number", _unit(result, "/s"), interval=True, keep=True),
        Column("step_ms", "Step", "number", "ms", interval=True),
        Column("speedup", "Speed-up", "number", interval=True, keep=True),
        Column("efficiency", "Efficiency", "percent", interval=True, keep=True),
        Column("baseline", "Baseline", "count", detail=True),
        Column("effective_batch", "Batch per step", "number"),
        Column("batch_per_worker", "Batch per worker", "number"),
    )

    def row(series: SeriesResult, p: PointResult) -> list[Cell]:
        batch = p.effective_batch
        return [
            f"{p.counts.succeeded}/{p.counts.planned}",
            *or_pending(p, p.throughput, _scaled(p.step_s, 1e3), p.speedup, p.efficiency),
            series.baseline,
            batch if batch is not None else p.point.global_batch,
            batch / p.workers if batch is not None else p.point.batch_per_worker,
        ]

    several = len({series.bundle for series in result.series}) > 1
    notes = _baselines(result)
    notes += [f"{series.bundle}, {note}" if several else note for series in result.series for note in series.notes]
    unfinished = result.unfinished()
    if unfinished:
        notes.append(f"{unfinished} trials unfinished; a point without any valid trial shows ?")
    return build(result, "scaling", "Scaling", columns, row, notes)


def _baselines(result: ScalingResult) -> list[str]:
    """The baseline, in one sentence if it is the same everywhere."""
    counts = {series.baseline for series in result.series}
    if len(counts) == 1:
        count = counts.pop()
        return [f"The baseline is {'1 worker' if count == 1 else f'{count} workers'} in every series."]
    return [f"The baseline of {series.name} is {series.baseline} workers." for series in result.series]


def split_table(result: ScalingResult) -> Table:
    """Breakdown of step time, and device utilization."""
    columns = (
        Column("step_ms", "Step", "number", "ms", interval=True),
        Column("compute_ms", "Without all-reduce", "number", "ms", interval=True),
        Column("exposed_ms", "Exposed communication", "number", "ms", interval=True),
        Column("exposed_share", "Share of step", "percent", interval=True),
        Column("computing", "Compute efficiency", "percent", interval=True),
        Column("plain_throughput", "Unwrapped, 1 worker", "number", _unit(result, "/s"), interval=True),
        Column("mfu", "MFU", "percent", interval=True),
        Column("energy_j", "Energy per sample", "number", "J", interval=True),
        Column("peak_memory_mib", "Peak memory", "number", "MiB"),
    )

    def row(_: SeriesResult, p: PointResult) -> list[Cell]:
        memory = None if p.peak_memory_bytes is None else p.peak_memory_bytes / (1 << 20)
        return [
            *or_pending(p, _scaled(p.step_s, 1e3), _scaled(p.compute_s, 1e3), _scaled(p.exposed_s, 1e3)),
            *or_pending(p, p.exposed_share, p.computing, p.plain_throughput, p.mfu, p.energy_j, memory),
        ]

    return build(result, "split", "Compute, communication and device utilization", columns, row)


def side_by_side_table(result: ScalingResult) -> Table:
    """Strong and weak scaling in one row; empty if there is only one mode."""
    pairs = identities(result.series)
    several = len({identity.label for identity in pairs.values()}) > 1
    cells: dict[tuple[str, int, str], dict[str, PointResult]] = {}
    for series in result.series:
        for p in series.points:
            label = pairs[series.bundle, series.name].label
            cells.setdefault((label, p.workers, p.point.layout), {})[series.mode.value] = p
    modes = [mode for mode in ("strong", "weak") if any(mode in points for points in cells.values())]
    columns = [*((Column("curve", "Curve"),) if several else ()), *_WHERE[1:]]
    for mode in modes:
        columns += [
            Column(f"{mode}_throughput", f"{mode.title()}: throughput", "number", _unit(result, "/s"), interval=True),
            Column(f"{mode}_speedup", "speed-up", "number", interval=True),
            Column(f"{mode}_efficiency", "efficiency", "percent", interval=True),
        ]
    rows = []
    for (label, workers, layout), points in cells.items() if len(modes) == 2 else ():
        row: list[Cell] = [*((label,) if several else ()), workers, layout]
        for mode in modes:
            at = points.get(mode)
            row += [None] * 3 if at is None else or_pending(at, at.throughput, at.speedup, at.efficiency)
        rows.append(tuple(row))
    return Table("modes", "Strong and weak side by side", tuple(columns), tuple(rows))


def excluded_table(result: ScalingResult) -> Table:
    """Excluded trials and why."""
    columns = (
        _bundle_column(e.bundle for e in result.excluded),
        Column("trial", "Trial"),
        *_WHERE[:2],
        Column("phase", "Phase"),
        Column("reason", "Reason"),
        Column("message", "What happened"),
    )
    rows = [(e.bundle, e.trial, e.series, e.workers, e.phase, e.reason, e.message) for e in result.excluded]
    notes = ("None of these is part of a curve.",) if rows else ()
    return Table("excluded", "Invalid, Failed and Cancelled trials", columns, tuple(rows), notes)


def problem_table(result: ScalingResult, further: Sequence[tuple[str, UnusableFile]] = ()) -> Table:
    """Unusable files; ``further`` are those found while reading step tables."""
    problems = (*result.problems, *further)
    columns = (
        _bundle_column(label for label, _ in problems),
        Column("file", "File"),
        Column("what", "Problem"),
    )
    rows = tuple((label, problem.file, problem.what) for label, problem in problems)
    return Table("problems", "Unusable files", columns, rows)


def build(
    result: ScalingResult, name: str, title: str, columns: Sequence[Column], row: RowOf, notes: Sequence[str] = ()
) -> Table:
    """A table with one row per point; the experiment is shown only if there are several."""
    rows = [
        (series.bundle, series.name, p.workers, p.point.layout, *row(series, p))
        for series in result.series
        for p in series.points
    ]
    head = (_bundle_column(series.bundle for series in result.series), *_WHERE)
    return Table(name, title, (*head, *columns), tuple(rows), tuple(notes))


def _bundle_column(labels: Iterable[str]) -> Column:
    """The experiment of a row: always in JSON and CSV, in tables only if there are several."""
    return Column("experiment", "Experiment", detail=len(set(labels)) < 2)


def or_pending(point: PointResult, *cells: Cell | Estimate) -> list[Cell]:
    """``?`` for every number of an unfinished point."""
    if not point.measured and point.counts.unfinished:
        return [PENDING] * len(cells)
    return list(cells)


def _scaled(estimate: Estimate | None, factor: float) -> Estimate | None:
    return None if estimate is None else estimate.scaled(factor)


def _unit(result: ScalingResult, suffix: str) -> str:
    units = {series.sample_unit for series in result.series}
    return (units.pop() if len(units) == 1 else "samples or tokens") + suffix
