"""The gradient noise scale over epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalecurve.reporting.drawing import axis, canvas
from scalecurve.reporting.drawing.canvas import Plot
from scalecurve.training_results import PointTraining
from scalecurve.training_results.tables import known_scale, noise_by_epoch

MOST_CURVES = 8
_CAPTION = (
    "tr Σ / |G|² in samples, the mean over repetitions; upright bars are intervals. Where it rises above the batch of "
    "a step, a larger batch still pays. Epochs in which a repetition could not tell |G|² from zero are left out."
)


def noise(points: Sequence[PointTraining], png: bool) -> Iterator[Plot]:
    """One curve a point, where any epoch's scale is known."""
    curves = []
    for p in points:
        scales = [(epoch, known_scale(p, rows)) for epoch, rows in noise_by_epoch(p).items()]
        known = [(epoch, scale) for epoch, scale in scales if scale is not None and scale.value > 0]
        if known:
            curves.append((p, known))
    if not curves:
        return
    left_out = len(curves) - MOST_CURVES
    curves = curves[:MOST_CURVES]
    columns, rows = canvas.legend_shape([p.label for p, _ in curves], canvas.figure_width(1, 1, 5.4))
    figure, (axes,) = canvas.panels(1, 1, rows, width=5.4, height=3.2)
    handles, heights = [], []
    for index, (p, known) in enumerate(curves):
        look = canvas.style(index)
        (line,) = axes.plot(
            [epoch for epoch, _ in known],
            [scale.value for _, scale in known],
            color=look.color,
            linestyle=look.line,
            marker=look.marker,
            markersize=4,
            label=p.label,
        )
        handles.append(line)
        heights += [scale.value for _, scale in known]
        floor = min(scale.value for _, scale in known) / 4
        bars = [
            (epoch, max(scale.low, floor), scale.high)
            for epoch, scale in known
            if scale.low is not None and scale.high is not None and scale.low < scale.high
        ]
        heights += [end for _, *ends in bars for end in ends]
        if bars:
            axes.vlines(*zip(*bars, strict=True), color=look.color, linewidth=3.4, alpha=0.3)
    axis.log_axis(axes, "y", min(heights), max(heights), axis.short)
    last = max(epoch for _, known in curves for epoch, _ in known)
    axes.set_xlim(0, last * 1.05)
    axis.fixed_ticks(axes, "x", axis.whole_ticks(last), [f"{tick:,.0f}" for tick in axis.whole_ticks(last)])
    axes.set_xlabel("Epoch")
    axes.set_ylabel("Noise scale (samples)")
    canvas.legend(figure, handles, columns)
    caption = _CAPTION + (f" The first {MOST_CURVES} points; {left_out} more are in the table." if left_out > 0 else "")
    yield canvas.finish(figure, "noise-scale", "Gradient noise scale", caption, png)
