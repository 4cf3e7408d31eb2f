"""The batch beyond which more workers stop paying, by the gradient noise scale that runs measured.

S. McCandlish et al., arXiv:1812.06162: with a batch of B samples a training takes S = S_min (1 + B_crit/B) steps and
E = E_min (1 + B/B_crit) samples, and B_simple, the noise scale, stands for B_crit (section 2.4; within their "factor of
a few"). At B = B_crit both are twice their least: beyond, another worker saves fewer steps than it costs samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scalecurve.render import formatting as spelling
from scalecurve.render.table import Cell, Column, Table
from scalecurve.statistics.mean import mean
from scalecurve.training_results.outcome import PointTraining
from scalecurve_api.record.rank import NoiseScaleRow


@dataclass(frozen=True)
class Worth:
    """The noise scale of one series in samples, with its interval; None where it cannot be told, and ``why``."""

    series: str
    runs: int
    scale: float | None
    low: float | None
    high: float | None
    why: str
    points: tuple[PointTraining, ...]

    @property
    def sentence(self) -> str:
        """For people."""
        if self.scale is None:
            return f"{self.series}: the batch beyond which more workers stop paying is not identifiable: {self.why}"
        said = f"{self.series}: more workers stop paying beyond a batch of about {spelling.number(self.scale)} samples"
        if self.low is not None and self.high is not None:
            said += f" ({spelling.number(self.low)} to {spelling.number(self.high)})"
        batches = sorted({p.point.batch_per_worker for p in self.points if p.point.batch_per_worker})
        if len({p.point.global_batch for p in self.points}) > 1 and len(batches) == 1:
            count = max(1, math.floor(self.scale / batches[0]))
            said += f", {count} worker{'s' * (count > 1)} of {batches[0]}"
        return f"{said}: steps and samples are then twice their least, by the noise scale of {self.runs} runs"


def worth(points: Sequence[PointTraining]) -> tuple[Worth, ...]:
    """Of every series in which a run measured it."""
    by_series: dict[str, list[PointTraining]] = {}
    for p in points:
        if any(record.noise_scale for record in p.records):
            by_series.setdefault(p.series, []).append(p)
    return tuple(_of_series(series, tuple(found)) for series, found in by_series.items())


def of_run(rows: Sequence[NoiseScaleRow]) -> tuple[float, float, float] | None:
    """(noise scale, low, high) of a run: medians over the epochs that tell it, where more than half of them do."""
    known = [row for row in rows if row.simple and row.simple_low is not None and row.simple_high is not None]
    if 2 * len(known) <= len(rows):
        return None
    return (
        median(row.simple or 0.0 for row in known),
        median(row.simple_low or 0.0 for row in known),
        median(row.simple_high or 0.0 for row in known),
    )


def _of_series(series: str, points: tuple[PointTraining, ...]) -> Worth:
    measured = [record.noise_scale for p in points for record in p.records if record.noise_scale]
    known = [found for found in map(of_run, measured) if found is not None]
    count, level = len(measured), points[0].level
    if 2 * len(known) <= count:
        why = f"{len(known) or 'none'} of {count} runs could tell |G|² from zero in most of their epochs"
        return Worth(series, count, None, None, None, why, points)
    if len(known) == 1:
        return Worth(series, 1, *known[0], "", points)
    # Of a scale there is a factor of error: the mean is taken of logarithms.
    found = mean([math.log(scale) for scale, _, _ in known], level)
    low, high = (None if each is None else math.exp(each) for each in (found.low, found.high))
    return Worth(series, len(known), math.exp(found.value), low, high, "", points)


def worth_table(found: Sequence[Worth]) -> Table:
    """Steps and samples of every measured worker count, as multiples of the fewest that any batch would take."""
    columns = (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("batch", "Batch", "count"),
        Column("noise_scale", "Noise scale", "number", "samples"),
        Column("noise_scale_low", "from", "number"),
        Column("noise_scale_high", "to", "number"),
        Column("steps", "Steps, of the fewest", "number"),
        Column("samples", "Samples, of the fewest", "number"),
        Column("pays", "Batch below the noise scale"),
    )
    rows: list[tuple[Cell, ...]] = []
    for each in found:
        for p in each.points:
            batch = p.point.global_batch
            if each.scale is None or batch is None:
                continue
            rows.append(
                (
                    *(each.series, p.point.workers, batch, each.scale, each.low, each.high),
                    *(1 + each.scale / batch, 1 + batch / each.scale, _below(batch, each)),
                )
            )
    notes = tuple(each.sentence for each in found)
    return Table("batch-worth", "What a larger batch is worth", columns, tuple(rows), notes)


def _below(batch: float, found: Worth) -> str | None:
    """Whether it still pays, where the interval tells."""
    if found.low is None or found.high is None:
        return None
    return "yes" if batch <= found.low else "no" if batch >= found.high else "cannot be told"
