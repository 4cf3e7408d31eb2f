"""An epoch as tables: batch by workers, and where its time goes.

The communication of an epoch is what was measured (windows without all-reduce), or else, of weak scaling, the
difference between a step and that of one worker with the same batch: the only way for strategies such as DataParallel
that have no step without communication. The latter holds whatever else more workers cost, such as a shared host.
"""

from collections.abc import Sequence

from scalecurve.curves.cost import CostReport, SeriesCost
from scalecurve.curves.results import PointResult
from scalecurve.render.table import Cell, Column, Table, experiment_column
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count

MEASURED, SUBTRACTED = "windows without all-reduce", "step of 1 worker subtracted"
_BATCH_AXES = ("batch.perWorker", "batch.global")


def epoch_split_table(costs: CostReport) -> Table:
    """Compute and communication of an epoch of every point whose epoch is known; seconds."""
    shown = [series for series in costs.series if series.dataset_samples]
    columns = (
        experiment_column(series.series.bundle for series in shown),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("steps", "Steps", "number"),
        Column("epoch_s", "Epoch", "number", "s"),
        Column("loading_s", "Waiting for data", "number", "s"),
        Column("without_loading_s", "Epoch without it", "number", "s"),
        Column("compute_s", "Compute", "number", "s"),
        Column("communication_s", "Communication", "number", "s"),
        Column("share", "Share of communication", "percent"),
        Column("method", "Communication by"),
    )
    rows: list[tuple[Cell, ...]] = []
    for series in shown:
        alone = next((p for p in series.series.points if p.workers == 1 and p.step_s), None)
        for p in series.series.points:
            if p.step_s is None or not p.effective_batch:
                continue
            steps = (series.dataset_samples or 0) / p.effective_batch
            step, waits = p.step_s.value, p.loader_s
            sent, method = _communication(p, alone, series)
            rows.append(
                (
                    *(series.series.bundle, series.series.name, p.workers, steps, steps * step),
                    None if waits is None else steps * waits,
                    None if waits is None else steps * (step - waits),
                    None if sent is None else steps * (step - sent - (waits or 0.0)),
                    None if sent is None else steps * sent,
                    None if sent is None else sent / step,
                    method,
                )
            )
    if not any(row[-1] is not None or row[5] is not None for row in rows):
        rows = []
    notes = (
        "Steps are the data set's samples over those of a step. By subtraction, communication is the step less that of "
        "one worker with the same batch per worker: everything that further workers cost is in it.",
    )
    title = "Where the time of an epoch goes"
    return Table("epoch-split", title, columns, tuple(rows), notes if rows else ())


def _communication(p: PointResult, alone: PointResult | None, series: SeriesCost) -> tuple[float | None, str | None]:
    """Seconds of a step, and how they are known."""
    if p.workers == 1:
        return 0.0, None
    if p.exposed_s is not None:
        return max(0.0, p.exposed_s.value), MEASURED
    subtracted = alone is not None and series.series.mode is Mode.weak
    if subtracted and alone is not None and alone.step_s is not None and p.step_s is not None:
        return max(0.0, p.step_s.value - alone.step_s.value), SUBTRACTED
    return None, None


def batch_table(costs: CostReport) -> Table:
    """Batch by workers: seconds of an epoch (or of a million samples) and the speed-up; empty for a single batch."""
    by_program: dict[tuple[object, ...], list[SeriesCost]] = {}
    for series in costs.series:
        point = series.series.points[0].point
        others = tuple(sorted((name, str(v)) for name, v in point.axes.items() if name not in _BATCH_AXES))
        by_program.setdefault((series.series.bundle, series.series.mode, others), []).append(series)
    kept = [group for group in by_program.values() if len(group) > 1]
    counts = sorted({p.workers for group in kept for series in group for p in series.series.measured})
    known = all(series.dataset_samples for group in kept for series in group)
    work = "Epoch" if known else "Million samples"
    columns: list[Column] = [
        experiment_column(series.series.bundle for group in kept for series in group),
        Column("program", "Program"),
        Column("batch", "Batch", "count"),
    ]
    for n in counts:
        columns.append(Column(f"time_{n}", f"{work}, {count(n, 'worker')}", "number", "s"))
        columns.append(Column(f"speedup_{n}", "speed-up", "number"))
    rows = [_batch_row(series, counts, known) for group in kept for series in group] if len(counts) > 1 else []
    notes = (
        "The batch is that of one worker (weak) or of all (strong); speed-up is against the baseline, same batch.",
    )
    return Table(
        "batches", "Time and speed-up by batch and workers", tuple(columns), tuple(rows), notes if rows else ()
    )


def _batch_row(series: SeriesCost, counts: Sequence[int], has_dataset: bool) -> tuple[Cell, ...]:
    point = series.series.points[0].point
    others = [f"{name}={value}" for name, value in sorted(point.axes.items()) if name not in _BATCH_AXES]
    batch = point.batch_per_worker if series.series.mode is Mode.weak else point.global_batch
    cells: list[Cell] = [series.series.bundle, " ".join([series.series.mode.value, *others]), batch]
    by_workers = {p.workers: p for p in series.series.measured}
    for n in counts:
        p = by_workers.get(n)
        rate = p.throughput.value if p and p.throughput else None
        cells.append(None if rate is None else ((series.dataset_samples or 0) if has_dataset else 1e6) / rate)
        cells.append(p.speedup.value if p and p.speedup else None)
    return tuple(cells)
