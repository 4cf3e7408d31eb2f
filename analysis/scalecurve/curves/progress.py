"""Progress of an experiment: points done, totals, failures, and the efficiency so far."""

from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import UnusableFile
from scalecurve.curves.compute import scaling
from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult, TrialCounts
from scalecurve.curves.tables import build, or_pending
from scalecurve.render.table import Cell, Column, Table


@dataclass(frozen=True)
class ExperimentProgress:
    """The whole bundle at a glance; ``headline`` is one sentence."""

    bundle: str
    counts: TrialCounts
    scaling: ScalingResult
    problems: tuple[UnusableFile, ...]
    headline: str

    @property
    def finished(self) -> bool:
        return self.counts.unfinished == 0

    def table(self) -> Table:
        return _table(self)


def status(bundle: Bundle, level: float = 0.95) -> ExperimentProgress:
    """Progress of a bundle; cheap enough to poll during a run, since it reads no step table."""
    result = scaling([bundle], level)
    counts = [p.counts for series in result.series for p in series.points]
    total = TrialCounts(
        planned=sum(c.planned for c in counts),
        succeeded=sum(c.succeeded for c in counts),
        failed=sum(c.failed for c in counts),
        invalid=sum(c.invalid for c in counts),
        cancelled=sum(c.cancelled for c in counts),
        unfinished=sum(c.unfinished for c in counts),
    )
    return ExperimentProgress(bundle.label, total, result, bundle.problems, _headline(bundle, total))


def _headline(bundle: Bundle, total: TrialCounts) -> str:
    done = total.planned - total.unfinished
    bad = [
        f"{number} {word}"
        for number, word in ((total.failed, "failed"), (total.invalid, "invalid"), (total.cancelled, "cancelled"))
        if number
    ]
    text = f"{bundle.label}: {done} of {total.planned} trials done"
    if bundle.plan is None:
        text = f"{bundle.label}: {done} trials recorded, number planned unknown"
    return ", ".join([text, *bad])


def _table(state: ExperimentProgress) -> Table:
    columns = (
        Column("done", "Done"),
        Column("failed", "Failed", "count"),
        Column("invalid", "Invalid", "count"),
        Column("throughput", "Throughput", "number", "/s", interval=True),
        Column("efficiency", "Efficiency", "percent", interval=True),
    )

    def row(_: SeriesResult, p: PointResult) -> list[Cell]:
        done = p.counts.planned - p.counts.unfinished
        return [
            f"{done}/{p.counts.planned}",
            p.counts.failed,
            p.counts.invalid,
            *or_pending(p, p.throughput, p.efficiency),
        ]

    notes = [f"{problem.file}: {problem.what}" for problem in state.problems]
    return build(state.scaling, "status", f"Points of {state.bundle}", columns, row, notes)
