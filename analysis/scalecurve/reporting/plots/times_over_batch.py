"""Time of a step and of an epoch over the global batch (Goyal et al., arXiv:1706.02677, figure 7)."""

from collections.abc import Callable, Sequence

from scalecurve.curves.cost import PointCost, SeriesCost
from scalecurve.render import formatting
from scalecurve.render.labels import brief, shortened
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, style
from scalecurve.reporting.drawing.marks import hollow_caption, hollow_marks
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.text import count, spell_value

MOST_LINES = 8
_CAPTION = (
    "Time of a step (iteration) and of {}, over the samples of a step of all workers; bars are intervals, and lines "
    "are moved apart a little. A line has everything but {} in common. "
)
_EACH_COUNT = "the batch"
_ALL_COUNTS = "the worker count, with which the batch of a step grows,"

Line = dict[int, PointCost]
Time = Callable[[PointCost], Estimate | None]
Lines = dict[str, Line]


@plot("times-over-batch", section="scaling", order=40)
def times_over_batch(analysis: Analysis) -> Drawing | None:
    """A line for each program and worker count with several batches, else for each program over worker counts."""
    (lines, note), common = _lines(analysis.costs.series, by_count=True), _EACH_COUNT
    if not lines:
        (lines, note), common = _lines(analysis.costs.series, by_count=False), _ALL_COUNTS
    if not lines:
        return None
    names, omitted = first(list(lines), MOST_LINES, "series")
    points = [p for name in names for p in lines[name].values()]
    by_epoch = all(p.epoch_s for p in points)
    work = "an epoch" if by_epoch else "a million samples"
    quantities: tuple[tuple[str, Time], ...] = (
        ("Step (ms)", lambda p: p.result.step_s and p.result.step_s.scaled(1e3)),
        ("Epoch (s)", lambda p: p.epoch_s) if by_epoch else ("Million samples (s)", _million_s),
    )
    sheet = Sheet(len(quantities), names)
    for panel, (label, time) in zip(sheet.panels, quantities, strict=True):
        axis.batch_axis(panel, sorted({batch for name in names for batch in lines[name]}))
        heights: list[float] = []
        for index, name in enumerate(names):
            look = style(index)
            drawn = [
                (axis.dodged(panel, batch, index, len(names)), value, p)
                for batch, p in sorted(lines[name].items())
                if (value := time(p)) is not None
            ]
            xs, values = [x for x, *_ in drawn], [value.value for _, value, _ in drawn]
            (artist,) = panel.plot(xs, values, **look.curve, label=name)
            heights += values + interval_bars(panel, ((x, v.low, v.high) for x, v, _ in drawn), look.color, alpha=0.38)
            hollow_marks(panel, [(x, v.value) for x, v, p in drawn if p.result.marks], look)
            sheet.handles[name] = artist
            for x, value, p in drawn:
                where = f"{name}, batch {p.result.point.global_batch:,} on {count(p.result.workers, 'worker')}"
                sheet.tip(panel, x, value.value, f"{where}: {label} {formatting.interval(value)}")
        panel.set_ylabel(label)
        axis.log_axis(panel, "y", min(heights), max(heights), axis.short)
    hollow = hollow_caption(p.result for p in points)
    return sheet.drawing("Times over global batch", _CAPTION.format(work, common) + note + hollow + omitted)


def _lines(series: Sequence[SeriesCost], *, by_count: bool) -> tuple[Lines, str]:
    """Measured points with a step time, by name and global batch; lines of one batch are none.

    With a sentence on what the names omit.
    """
    groups: dict[tuple[str, str, int], Line] = {}
    for curve in series:
        for p in curve.points:
            batch = p.result.point.global_batch
            if batch is not None and p.result.step_s is not None and p.result.throughput is not None:
                key = (curve.series.bundle, _program(curve, p), p.result.workers if by_count else 0)
                groups.setdefault(key, {}).setdefault(batch, p)
    kept = {key: line for key, line in groups.items() if len(line) > 1}
    bundles, programs = ({key[place] for key in kept} for place in (0, 1))
    short = brief([program for _, program, _ in kept], [program.partition(" ")[0] for _, program, _ in kept])
    _, note = shortened(program for _, program, _ in kept)
    lines: Lines = {}
    for (bundle, program, workers), line in kept.items():
        parts = [bundle] * (len(bundles) > 1) + [short[program]] * (len(programs) > 1)
        batch, p = next(iter(line.items()))
        parts.append(count(workers, "worker") if by_count else f"{batch // p.result.workers:,} per worker")
        lines[", ".join(parts)] = line
    return lines, note


def _program(curve: SeriesCost, p: PointCost) -> str:
    others: dict[str, AxisValue] = {n: v for n, v in p.result.point.axes.items() if not n.startswith("batch.")}
    return " ".join([curve.series.mode.value, *(f"{name}={spell_value(value)}" for name, value in others.items())])


def _million_s(p: PointCost) -> Estimate | None:
    return p.result.throughput and p.result.throughput.reciprocal().scaled(1e6)
