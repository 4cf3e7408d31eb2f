"""Link utilization of training: bytes sent per step against the bandwidth of the all-reduce alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from scalecurve.bundle.open import Bundle
from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult
from scalecurve.curves.tables import build, or_pending
from scalecurve.render.table import Cell, Column, Table

LEAST_SHARE = 0.01  # of the step; less is ignored in the bandwidth over exposed communication
_NOTES = (
    "Bytes are what one worker sends per step, from the record (a ring sends 2(N-1)/N of the gradients); over the step "
    "= bytes / step time, the average load of its link; over exposed communication = bytes / exposed time.",
    "Over exposed communication overstates the link's rate where part of the sending overlaps with compute.",
)
_SHARE = "Utilization = over the step / the highest bus bandwidth of the all-reduce alone at that worker count."


def wire_table(result: ScalingResult, bundles: Sequence[Bundle], alone: Mapping[tuple[int, int], float]) -> Table:
    """Bytes sent and bandwidths of every multi-worker point whose records have them.

    ``alone`` is the highest bus bandwidth of the all-reduce by itself in GB/s, by workers and nodes.
    """
    sent = _bytes_per_step(bundles)
    columns = (
        Column("sent_mib", "Sent per step", "number", "MiB"),
        Column("step_ms", "Step", "number", "ms", interval=True),
        Column("exposed_ms", "Exposed communication", "number", "ms", interval=True),
        Column("over_step", "Over the step", "number", "GB/s", interval=True),
        Column("over_exposed", "Over exposed communication", "number", "GB/s"),
        Column("allreduce", "All-reduce alone", "number", "GB/s"),
        Column("used", "Utilization", "percent"),
    )

    def row(series: SeriesResult, p: PointResult) -> list[Cell]:
        size = sent.get((series.bundle, p.point.name))
        if size is None or p.step_s is None:
            return [None] * len(columns)
        over_step = p.step_s.reciprocal().scaled(size / 1e9) if size else None
        exposed = p.exposed_s.value if p.exposed_s and _has_exposed_time(p) else 0.0
        link = alone.get((p.workers, p.point.nodes))
        return or_pending(
            p,
            size / (1 << 20),
            p.step_s.scaled(1e3),
            p.exposed_s.scaled(1e3) if p.exposed_s else None,
            over_step,
            size / exposed / 1e9 if exposed > 0 else None,
            link,
            over_step.value / link if over_step and link else None,
        )

    table = build(result, "wire", "Data sent per step", columns, row, (*_NOTES, *([_SHARE] if alone else ())))
    return replace(table, rows=tuple(cells for cells in table.rows if cells[-len(columns) - 1] not in (None, 0.0)))


def _has_exposed_time(p: PointResult) -> bool:
    """Whether exposed communication is long enough to divide by, and no scatter around zero."""
    if p.exposed_s is None or p.step_s is None or p.exposed_s.unknown:
        return False
    low = p.exposed_s.value if p.exposed_s.low is None else p.exposed_s.low
    return low > 0 and p.exposed_s.value >= LEAST_SHARE * p.step_s.value


def _bytes_per_step(bundles: Sequence[Bundle]) -> dict[tuple[str, str], float]:
    """Bytes that rank 0 sends in a step, by bundle and point; the median over repetitions."""
    sent: dict[tuple[str, str], list[float]] = {}
    for bundle in bundles:
        for trial in bundle.trials:
            if trial.good and trial.record is not None and trial.record.traffic is not None:
                sent.setdefault((bundle.label, trial.spec.point.name), []).append(trial.record.traffic.wire_bytes)
    return {key: median(values) for key, values in sent.items()}
