"""Progress of an experiment: points done, totals, failures, and the efficiency so far."""

from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import UnusableFile
from scalecurve.curves.compute import scaling
from scalecurve.curves.doubts import first_lines
from scalecurve.curves.headline import explain_above_one
from scalecurve.curves.missing import missing_curves
from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult, TrialCounts
from scalecurve.curves.tables import build, or_pending
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Cell, Column, Table
from scalecurve_api.text import count as counted


@dataclass(frozen=True)
class ExperimentProgress(OneTable):
    """The whole bundle at a glance; ``headline`` is one sentence."""

    bundle: str
    counts: TrialCounts
    scaling: ScalingResult
    problems: tuple[UnusableFile, ...]
    headline: str
    missing: tuple[str, ...] = ()
    """Why curves or points of them are not there, once every trial has ended."""

    @property
    def finished(self) -> bool:
        return self.counts.unfinished == 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Points that do not count, and why."""
        return first_lines(self.scaling.named_points())

    def table(self) -> Table:
        columns = (
            Column("done", "Done"),
            Column("failed", "Failed", "count"),
            Column("invalid", "Invalid", "count"),
            Column("throughput", "Throughput", "number", "/s", interval=True),
            Column("efficiency", "Efficiency", "percent", interval=True),
        )

        def row(_: SeriesResult, p: PointResult) -> list[Cell]:
            done = f"{p.counts.planned - p.counts.unfinished}/{p.counts.planned}"
            efficiency = p.efficiency if self.scaling.compared else None
            return [done, p.counts.failed, p.counts.invalid, *or_pending(p, p.throughput, efficiency)]

        return build(
            self.scaling,
            "status",
            f"Points of {self.bundle}",
            columns,
            row,
            [
                *self.missing,
                *self._faster(),
                *map(str, self.problems),
            ],
        )

    def _faster(self) -> list[str]:
        return [note for each in self.scaling.series for note in explain_above_one(each.name, each.measured)]


def status(bundle: Bundle, level: float = 0.95) -> ExperimentProgress:
    """Summarize the progress of a bundle; cheap enough to poll during a run, since it reads no step table.

    Args:
        bundle: A bundle, which may still be written.
        level: Level of the intervals, 0.95 for 95 %.

    Returns:
        How many trials are done, and the throughput of every point so far.
    """
    total = TrialCounts.of(bundle.trials)
    result = scaling([bundle], level)
    missing = () if total.unfinished else tuple(map(str, missing_curves([bundle], result, paths=True)))
    return ExperimentProgress(bundle.label, total, result, bundle.problems, _headline(bundle, total, result), missing)


def _headline(bundle: Bundle, total: TrialCounts, result: ScalingResult) -> str:
    done = total.planned - total.unfinished
    ends = {"failed": total.failed, "invalid": total.invalid, "cancelled": total.cancelled}
    bad = [f"{number} {end}" for end, number in ends.items() if number]
    text = f"{bundle.label}: {done} of {counted(total.planned, 'trial')} done"
    if bundle.plan is None:
        text = f"{bundle.label}: {counted(done, 'trial')} recorded, number planned unknown"
    return "; ".join([", ".join([text, *bad]), *first_lines(result.named_points())])
