"""The curves as tables: one row a point."""

from collections.abc import Callable, Sequence

from scalecurve.bundle.problem import UnusableFile
from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult
from scalecurve.curves.series_matching import identities
from scalecurve.render import formatting
from scalecurve.render.table import PENDING, Cell, Column, Table, experiment_column
from scalecurve.statistics.estimate import Estimate, RefusedNumber
from scalecurve.statistics.kinds import unseen_share
from scalecurve_api.text import count

RowOf = Callable[[SeriesResult, PointResult], list[Cell]]

_UNPROVED = Column("unproved", "Unproved")
_WHERE = (Column("series", "Series"), Column("workers", "Workers", "count"), Column("layout", "Layout"))


def scaling_table(result: ScalingResult) -> Table:
    """Throughput, step time, speed-up and efficiency of every point, with the batch it really used.

    Of a single worker count there is no speed-up.
    """
    compared = result.compared
    columns = (
        Column("trials", "Valid trials"),
        Column("throughput", "Throughput", "number", _unit(result), interval=True, keep=True),
        Column("sequences", "Sequences", "number", "samples/s", interval=True),
        Column("step_ms", "Step", "number", "ms", interval=True),
        Column("speedup", "Speed-up", "number", interval=True, keep=compared),
        Column("efficiency", "Efficiency", "percent", interval=True, keep=compared),
        Column("baseline", "Baseline", "count", detail=True),
        Column("effective_batch", "Batch per step", "number"),
        Column("batch_per_worker", "Batch per worker", "number"),
    )

    def row(series: SeriesResult, p: PointResult) -> list[Cell]:
        batch = p.effective_batch
        return [
            f"{p.counts.succeeded}/{p.counts.planned}",
            *or_pending(p, p.throughput, p.sequences, _scale_estimate(p.step_s, 1e3)),
            *(or_pending(p, p.speedup, p.efficiency) if compared else (None, None)),
            series.baseline,
            batch if batch is not None else p.point.global_batch,
            batch / p.workers if batch is not None else p.point.batch_per_worker,
        ]

    several = len({series.bundle for series in result.series}) > 1
    notes = _baselines(result) if compared else _alone(result)
    notes += [f"{series.bundle}, {note}" if several else note for series in result.series for note in series.notes]
    notes += _not_shown(result)
    if unfinished := result.unfinished():
        notes.append(f"{count(unfinished, 'trial')} unfinished; a point without any valid trial shows ?")
    return build(result, "scaling", "Scaling" if compared else "Throughput", columns, row, notes)


def _baselines(result: ScalingResult) -> list[str]:
    counts = {series.baseline for series in result.series}
    if len(counts) == 1:
        return [f"The baseline is {count(counts.pop(), 'worker')} in every series."]
    return [f"The baseline of {series.name} is {count(series.baseline, 'worker')}." for series in result.series]


def _alone(result: ScalingResult) -> list[str]:
    if not result.series:
        return []
    return ["One worker count: no speed-up. Further counts can be added with `scalecurve run --add-points`."]


def _not_shown(result: ScalingResult) -> list[str]:
    """What so few repetitions cannot show, since no interval can."""
    valid = [p.counts.succeeded for series in result.series for p in series.measured]
    if not valid:
        return []
    least, trials = min(valid), sum(valid)
    point, curve = (formatting.percent(unseen_share(n), 0) for n in (least, trials))
    together = f", and all {count(trials, 'trial')} together one of up to {curve}" if trials > least else ""
    return [
        f"Intervals hold for runs like those measured. {count(least, 'repetition')} of a point can miss a kind "
        f"of run that is up to {point} of all{together}: whether such slower runs exist is not known."
    ]


def split_table(result: ScalingResult) -> Table:
    """Breakdown of step time, and device utilization."""
    columns = (
        Column("step_ms", "Step", "number", "ms", interval=True),
        Column("loader_ms", "Waiting for data", "number", "ms"),
        Column("compute_ms", "Without all-reduce", "number", "ms", interval=True),
        Column("exposed_ms", "Exposed communication", "number", "ms", interval=True),
        Column("exposed_share", "Share of step", "percent", interval=True),
        Column("computing", "Compute efficiency", "percent", interval=True),
        Column("plain_throughput", "Unwrapped, 1 worker", "number", _unit(result), interval=True),
        Column("busy", "GPU busy", "percent"),
        Column("mfu", "MFU", "percent", interval=True),
        Column("hfu", "HFU", "percent", interval=True),
        Column("energy_j", "Energy per sample", "number", "J", interval=True),
        Column("peak_memory_mib", "Peak memory", "number", "MiB"),
    )

    def row(_: SeriesResult, p: PointResult) -> list[Cell]:
        memory = None if p.peak_memory_bytes is None else p.peak_memory_bytes / (1 << 20)
        loader = None if p.loader_s is None else p.loader_s * 1e3
        apart: list[Cell] = [_scale_estimate(p.compute_s, 1e3), _scale_estimate(p.exposed_s, 1e3), p.exposed_share]
        if p.split_refused:
            apart = [RefusedNumber(f"{p.workers} workers: {p.split_refused}")] * 3
        used: list[Cell] = [p.mfu, p.hfu]
        if p.peak_refused:
            used = [RefusedNumber(f"{p.workers} workers: {p.peak_refused}")] * 2
        return [
            *or_pending(p, _scale_estimate(p.step_s, 1e3), loader, *apart),
            *or_pending(p, p.computing, p.plain_throughput, p.busy, *used),
            *or_pending(p, p.energy_j, memory),
        ]

    peaks = dict.fromkeys(p.peak for series in result.series for p in series.points if p.mfu or p.hfu)
    notes = [f"MFU and HFU are shares of the vendor's peak without sparsity: {'; '.join(peaks)}."] if peaks else []
    return build(result, "split", "Compute, communication and device utilization", columns, row, notes)


def side_by_side_table(result: ScalingResult) -> Table:
    """Strong and weak scaling in one row; empty if there is only one mode, or one worker count."""
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
            Column(f"{mode}_throughput", f"{mode.title()}: throughput", "number", _unit(result), interval=True),
            Column(f"{mode}_speedup", "speed-up", "number", interval=True),
            Column(f"{mode}_efficiency", "efficiency", "percent", interval=True),
        ]
    rows = []
    for (label, workers, layout), points in cells.items() if len(modes) == 2 and result.compared else ():
        row: list[Cell] = [*((label,) if several else ()), workers, layout]
        for at in map(points.get, modes):
            row += [None] * 3 if at is None else or_pending(at, at.throughput, at.speedup, at.efficiency)
        rows.append(tuple(row))
    return Table("modes", "Strong and weak side by side", tuple(columns), tuple(rows))


def excluded_table(result: ScalingResult) -> Table:
    """Excluded trials and why."""
    columns = (
        experiment_column(label for label, _ in result.excluded),
        Column("trial", "Trial"),
        *_WHERE[:2],
        Column("phase", "Phase"),
        Column("reason", "Reason"),
        Column("message", "What happened"),
    )
    rows = [
        (label, t.name, t.spec.point.series, t.spec.point.workers, r.phase.value, r.reason or r.phase.value, r.message)
        for label, t in result.excluded
        if (r := t.record)
    ]
    notes = ("None of these is part of a curve.",) if rows else ()
    return Table("excluded", "Excluded trials", columns, tuple(rows), notes)


def problem_table(result: ScalingResult, further: Sequence[tuple[str, UnusableFile]] = ()) -> Table:
    """Unusable files; ``further`` are those found while reading step tables."""
    problems = tuple(dict.fromkeys((*result.problems, *further)))
    columns = (experiment_column(label for label, _ in problems), Column("file", "File"), Column("what", "Problem"))
    rows = tuple((label, problem.file, problem.what) for label, problem in problems)
    return Table("problems", "Unusable files", columns, rows)


def build(
    result: ScalingResult, name: str, title: str, columns: Sequence[Column], row: RowOf, notes: Sequence[str] = ()
) -> Table:
    """A table with one row per point; the experiment is shown only if there are several."""
    rows = [
        (series.bundle, series.name, p.workers, p.point.layout, *row(series, p), ", ".join(p.marks) or None)
        for series in result.series
        for p in series.points
    ]
    head = (experiment_column(series.bundle for series in result.series), *_WHERE)
    return Table(name, title, (*head, *columns, _UNPROVED), tuple(rows), tuple(notes))


def or_pending(point: PointResult, *cells: Cell) -> list[Cell]:
    """``?`` for every number of an unfinished point."""
    if not point.measured and point.counts.unfinished:
        return [PENDING] * len(cells)
    return list(cells)


def _scale_estimate(estimate: Estimate | None, factor: float) -> Estimate | None:
    return None if estimate is None else estimate.scaled(factor)


def _unit(result: ScalingResult) -> str:
    units = {series.sample_unit for series in result.series if series.measured} or {"samples"}
    return f"{units.pop() if len(units) == 1 else 'samples or tokens'}/s"
