"""How large a batch may grow: validation error over the global batch (Goyal et al. 2017), and the noise scale."""

from collections.abc import Mapping

from scalecurve.features.accuracy.results import PointTraining
from scalecurve.features.accuracy.results.outcome import format_axis_value
from scalecurve.features.accuracy.results.tables import estimate_noise_scale, noise_by_epoch
from scalecurve.features.accuracy.sections import training_of
from scalecurve.render import formatting
from scalecurve.render.labels import brief, shortened
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, style
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.text import count

MOST_LINES = 8
_CAPTION = (
    "Error on validation data after the last epoch, mean over repetitions, over the samples of a step of all workers; "
    "bars are intervals, and lines are moved apart a little. Points on a line differ only in batch size and worker "
    "count. "
)
_NOISE_CAPTION = (
    "tr Σ / |G|² in samples, mean over repetitions; vertical bars are intervals. While it exceeds the batch of a "
    "step, a larger batch still pays. Epochs in which a repetition cannot separate |G|² from zero are omitted."
)


@plot("error-over-batch", section="training-axes", order=20)
def error_over_batch(analysis: Analysis) -> Drawing | None:
    """Draw a line for each program with two global batches or more; return None where there is none."""
    lines = {name: line for name, line in _lines(analysis).items() if len(line) > 1}
    if not lines:
        return None
    names, omitted = first(list(lines), MOST_LINES, "series")
    _, note = shortened(names)
    short = brief(names, [next(iter(lines[name].values())).point.mode.value for name in names])
    sheet = Sheet(labels=list(short.values()) if len(names) > 1 else [])
    (axes,) = sheet.panels
    axis.batch_axis(axes, sorted({batch for name in names for batch in lines[name]}))
    heights: list[float] = []
    for index, name in enumerate(names):
        look, line, label = style(index), sorted(lines[name].items()), short[name]
        errors = [1 - p.final.value for _, p in line]
        places = [axis.dodged(axes, batch, index, len(names)) for batch, _ in line]
        (drawn,) = axes.plot(places, errors, **look.curve, label=label)
        bars = ((x, _less(p.final.high), _less(p.final.low)) for x, (_, p) in zip(places, line, strict=True))
        heights += errors + interval_bars(axes, bars, look.color, alpha=0.38)
        if sheet.labels:
            sheet.handles[label] = drawn
        for x, (batch, p), error in zip(places, line, errors, strict=True):
            where = f"batch {batch:,} on {count(p.point.workers, 'worker')}"
            sheet.tip(axes, x, error, f"{label}, {where}: error {formatting.percent(error, 2)}")
    axis.linear_axis(axes, "y", 0, max(heights) * 1.06 or 1, axis.percent)
    axes.set_ylabel("Validation error")
    return sheet.drawing("Validation error over global batch", _CAPTION + note + omitted)


def _lines(analysis: Analysis) -> Mapping[str, dict[int, PointTraining]]:
    """Points by what they share and by global batch; of two with one batch, the one on fewer workers."""
    several = len(analysis.bundles) > 1
    lines: dict[str, dict[int, PointTraining]] = {}
    for p in sorted(analysis.once(training_of).points, key=lambda p: p.point.workers):
        if p.point.global_batch is not None:
            others = [f"{n}={format_axis_value(v)}" for n, v in p.point.axes.items() if not n.startswith("batch.")]
            name = " ".join([*([f"{p.bundle}:"] if several else []), p.point.mode.value, *others])
            lines.setdefault(name, {}).setdefault(p.point.global_batch, p)
    return lines


def _less(share: float | None) -> float | None:
    return None if share is None else 1 - share


@plot("noise-scale", section="noise-scale", order=10)
def noise_scale(analysis: Analysis) -> Drawing | None:
    """Draw one curve per point, if any epoch's scale is known."""
    curves = []
    for p in analysis.once(training_of).points:
        scales = [(epoch, estimate_noise_scale(p, rows)) for epoch, rows in noise_by_epoch(p).items()]
        epoch_scales = [(epoch, scale) for epoch, scale in scales if scale is not None and scale.value > 0]
        if epoch_scales:
            curves.append((p, epoch_scales))
    if not curves:
        return None
    shown, omitted = first(curves, MOST_LINES, "points")
    sheet = Sheet(labels=[p.label for p, _ in shown], width=5.4, height=3.2)
    (axes,) = sheet.panels
    heights = []
    for index, (p, epoch_scales) in enumerate(shown):
        look = style(index)
        values = [scale.value for _, scale in epoch_scales]
        epochs = [epoch for epoch, _ in epoch_scales]
        (sheet.handles[p.label],) = axes.plot(epochs, values, **look.curve, markersize=4, label=p.label)
        heights += values
        floor = min(values) / 4
        bars = [(epoch, scale.low and max(scale.low, floor), scale.high) for epoch, scale in epoch_scales]
        heights += interval_bars(axes, bars, look.color)
    axis.log_axis(axes, "y", min(heights), max(heights), axis.short)
    axis.epoch_axis(axes, max(epoch for _, epoch_scales in shown for epoch, _ in epoch_scales), 1.05)
    axes.set_ylabel("Noise scale (samples)")
    return sheet.drawing("Gradient noise scale", _NOISE_CAPTION + omitted)
