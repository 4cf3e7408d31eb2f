"""The gradient noise scale over epochs."""

from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, style
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve.training_results.tables import known_scale, noise_by_epoch

MOST_CURVES = 8
_CAPTION = (
    "tr Σ / |G|² in samples, mean over repetitions; vertical bars are intervals. While it exceeds the batch of a "
    "step, a larger batch still pays. Epochs in which a repetition cannot separate |G|² from zero are omitted."
)


@plot("noise-scale", section="noise-scale", order=10)
def noise_scale(findings: Findings) -> Drawing | None:
    """One curve per point, if any epoch's scale is known."""
    curves = []
    for p in findings.training.points:
        scales = [(epoch, known_scale(p, rows)) for epoch, rows in noise_by_epoch(p).items()]
        epoch_scales = [(epoch, scale) for epoch, scale in scales if scale is not None and scale.value > 0]
        if epoch_scales:
            curves.append((p, epoch_scales))
    if not curves:
        return None
    shown, left_out = first(curves, MOST_CURVES, "points")
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
    return sheet.drawing("Gradient noise scale", _CAPTION + left_out)
