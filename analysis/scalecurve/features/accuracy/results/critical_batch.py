"""The critical batch, beyond which more workers stop paying off, from the measured gradient noise scale.

S. McCandlish et al., arXiv:1812.06162: with a batch of B samples a training takes S = S_min (1 + B_crit/B) steps and
E = E_min (1 + B/B_crit) samples, and B_simple, the noise scale, stands for B_crit (section 2.4; within their "factor of
a few"). At B = B_crit both are twice their least: beyond, another worker saves fewer steps than it costs samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scalecurve.features.accuracy.results.outcome import PointTraining
from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table, interval_ends
from scalecurve.statistics.estimate import is_informative
from scalecurve.statistics.mean import mean
from scalecurve_api.features.noise_scale.facts import NOISE_SCALE, NoiseScaleRow
from scalecurve_api.text import count


@dataclass(frozen=True)
class SeriesCriticalBatch:
    """The noise scale of one series in samples with its interval; None, and ``why``, if it is not identifiable."""

    series: str
    runs: int
    scale: float | None
    low: float | None
    high: float | None
    why: str
    points: tuple[PointTraining, ...]

    @property
    def sentence(self) -> str:
        if self.scale is None:
            return f"{self.series}: critical batch not identifiable: {self.why}"
        text = f"{self.series}: more workers stop paying off at a batch of about "
        text += f"{formatting.number(self.scale)} samples"
        if self.low is not None and self.high is not None:
            ends = f"{formatting.number(self.low)} to {formatting.number(self.high)}"
            text += f" ({ends if is_informative(self.low, self.high) else 'interval not known'})"
        batches = sorted({p.point.batch_per_worker for p in self.points if p.point.batch_per_worker})
        if len({p.point.global_batch for p in self.points}) > 1 and len(batches) == 1:
            workers = max(1, math.floor(self.scale / batches[0]))
            text += f", {count(workers, 'worker')} of {batches[0]}"
        return f"{text}: steps and samples are then twice their minimum (noise scale of {count(self.runs, 'run')})"


def critical_batches(points: Sequence[PointTraining]) -> tuple[SeriesCriticalBatch, ...]:
    """Estimate the critical batch of every series that measured the noise scale."""
    by_series: dict[str, list[PointTraining]] = {}
    for p in points:
        if any(NOISE_SCALE.of(record) for record in p.records):
            by_series.setdefault(p.series, []).append(p)
    return tuple(_series_critical_batch(series, tuple(group)) for series, group in by_series.items())


def noise_scale_of_run(rows: Sequence[NoiseScaleRow]) -> tuple[float, float, float] | None:
    """Compute a run's (noise scale, low, high): medians over the epochs that tell it, if more than half do."""
    identified = [row for row in rows if row.simple and row.simple_low is not None and row.simple_high is not None]
    if 2 * len(identified) <= len(rows):
        return None
    return (
        median(row.simple or 0.0 for row in identified),
        median(row.simple_low or 0.0 for row in identified),
        median(row.simple_high or 0.0 for row in identified),
    )


def _series_critical_batch(series: str, points: tuple[PointTraining, ...]) -> SeriesCriticalBatch:
    measured = [rows for p in points for record in p.records if (rows := NOISE_SCALE.of(record))]
    scales = [scale for scale in map(noise_scale_of_run, measured) if scale is not None]
    runs, level = len(measured), points[0].level
    if 2 * len(scales) <= runs:
        why = f"{len(scales) or 'none'} of {runs} runs separate |G|² from zero in most epochs"
        return SeriesCriticalBatch(series, runs, None, None, None, why, points)
    if len(scales) == 1:
        return SeriesCriticalBatch(series, 1, *scales[0], "", points)
    # Of a scale there is a factor of error: the mean is taken of logarithms.
    average = mean([math.log(scale) for scale, _, _ in scales], level)
    low, high = (None if end is None else math.exp(end) for end in (average.low, average.high))
    return SeriesCriticalBatch(series, len(scales), math.exp(average.value), low, high, "", points)


def critical_batch_table(batches: Sequence[SeriesCriticalBatch]) -> Table:
    """Tabulate steps and samples of every worker count, as multiples of the fewest that any batch would take."""
    columns = (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("batch", "Batch", "count"),
        Column("noise_scale", "Noise scale", "number", "samples"),
        Column("noise_scale_low", "from", "number"),
        Column("noise_scale_high", "to", "number"),
        Column("steps", "Steps / minimum", "number"),
        Column("samples", "Samples / minimum", "number"),
        Column("pays", "Batch below noise scale"),
    )
    rows: list[tuple[Cell, ...]] = []
    for critical in batches:
        for p in critical.points:
            scale, batch = critical.scale, p.point.global_batch
            if scale is not None and batch is not None:
                worth = (1 + scale / batch, 1 + batch / scale, _say_whether_below(batch, critical))
                ends = interval_ends(critical.low, critical.high)
                rows.append((critical.series, p.point.workers, batch, scale, *ends, *worth))
    notes = tuple(critical.sentence for critical in batches)
    return Table("batch-worth", "Value of a larger batch", columns, tuple(rows), notes)


def _say_whether_below(batch: float, estimate: SeriesCriticalBatch) -> str | None:
    if estimate.low is None or estimate.high is None:
        return None
    return "yes" if batch <= estimate.low else "no" if batch >= estimate.high else "undecided"
