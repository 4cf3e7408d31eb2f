"""Accuracy and error over bits, and where the values of a few layers lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scalecurve.reporting.drawing import axis, canvas
from scalecurve.reporting.drawing.canvas import Plot
from scalecurve.statistics.mean import mean
from scalecurve.training_results import PointTraining
from scalecurve.training_results.quantization import STAGES, facts_of, float_accuracy, rows_of, share
from scalecurve_api.record.rank import LayerHistogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 4
LAYERS = 4
_CAPTION = (
    "Means over repetitions by what is in whole numbers, with intervals (bars). Full lines: one step for each tensor; "
    "dashed: one for each channel of the weights. Diamonds are PyTorch's own at 8 bits; the level line is float32."
)
_HISTOGRAMS = (
    "One repetition's weights with batch norm folded in, and what left each layer on the calibration batches, in bins "
    "of equal width; counts on a log scale."
)


def quantized(points: Sequence[PointTraining], png: bool) -> Iterator[Plot]:
    """A row of two panels for each point, and the histograms of the first."""
    found = [p for p in points if rows_of(p)]
    if not found:
        return
    shown = found[:MOST_POINTS]
    labels = [
        title
        for stage, title in STAGES.items()
        if any(stage in stages for p in shown for stages in rows_of(p).values())
    ]
    columns, rows = canvas.legend_shape(labels, canvas.figure_width(2, 2))
    figure, panels = canvas.panels(2 * len(shown), 2, rows)
    handles: dict[str, object] = {}
    for index, p in enumerate(shown):
        by_accuracy, by_error = panels[2 * index : 2 * index + 2]
        handles |= _panel(by_accuracy, p, of_error=False)
        handles |= _panel(by_error, p, of_error=True)
        for panel in (by_accuracy, by_error) if len(found) > 1 else ():
            panel.set_title(p.label, loc="left")
    canvas.legend(figure, [handles[label] for label in labels], columns)
    more = len(found) - len(shown)
    caption = _CAPTION + (f" The first {MOST_POINTS} points; {more} more are in the table." if more else "")
    yield canvas.finish(figure, "quantization", "Accuracy and error over bits", caption, png)
    yield from _histograms(shown[0], png)


def _panel(axes: Axes, p: PointTraining, *, of_error: bool) -> dict[str, object]:
    table = rows_of(p)
    widths = sorted({bits for bits, _ in table})
    handles: dict[str, object] = {}
    heights = []
    for index, (stage, title) in enumerate(STAGES.items()):
        for scheme in ("tensor", "channel"):
            points = []
            for bits in widths:
                rows = table.get((bits, scheme), {}).get(stage)
                if rows:
                    found = mean([row.error for row in rows], p.level, least=0) if of_error else share(p, rows)
                    points.append((bits, found))
            if not points:
                continue
            look = canvas.style(index)
            dashed = scheme == "channel"
            # Apart by a little, so that intervals at one width do not hide one another.
            places = [bits + (index - 1) * 0.1 + (0.05 if dashed else 0) for bits, _ in points]
            (line,) = axes.plot(
                places,
                [value.value for _, value in points],
                color=look.color,
                linestyle="none" if stage == "torch" else canvas.DASHES[1] if dashed else "-",
                linewidth=1.3,
                marker=look.marker,
                markersize=4,
                markerfacecolor=canvas.PAPER if dashed else look.color,
                label=title,
            )
            handles.setdefault(title, line)
            heights += [value.value for _, value in points]
            bars = [
                (at, value.low, value.high)
                for at, (_, value) in zip(places, points, strict=True)
                if value.low is not None and value.high is not None and value.low < value.high
            ]
            if bars:
                axes.vlines(*zip(*bars, strict=True), color=look.color, linewidth=2.4, alpha=0.25)
    axes.set_xlim(widths[-1] + 0.5, widths[0] - 0.5)
    axis.fixed_ticks(axes, "x", widths, [str(bits) for bits in widths])
    axes.set_xlabel("Bits")
    if of_error:
        axes.set_ylabel("Error of the logits")
        positive = [height for height in heights if height > 0]
        if positive:
            axis.log_axis(axes, "y", min(positive), max(positive), _percent)
    else:
        axes.set_ylabel("Accuracy")
        axis.linear_axis(axes, "y", 0, 1.03, _percent)
        axes.axhline(float_accuracy(p).value, color=canvas.FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    return handles


def _histograms(p: PointTraining, png: bool) -> Iterator[Plot]:
    found = facts_of(p)[0].histograms
    layers = list(dict.fromkeys(each.layer for each in found))
    if not layers:
        return
    count = min(LAYERS, len(layers))
    chosen = [layers[round(i * (len(layers) - 1) / max(1, count - 1))] for i in range(count)]
    figure, panels = canvas.panels(2 * count, count, width=2.0, height=1.7)
    by_place = {(str(each.kind), each.layer): each for each in found}
    for row, kind in enumerate(("weights", "activations")):
        for column, layer in enumerate(chosen):
            panel = panels[row * count + column]
            each = by_place.get((kind, layer))
            if each is not None:
                _bars(panel, each, canvas.PALETTE[row])
            panel.set_title(layer if row == 0 else "", loc="left", fontsize=9)
            panel.set_xlabel("Weight" if kind == "weights" else "Activation")
    more = len(layers) - count
    caption = _HISTOGRAMS + (f" {count} layers of {len(layers)}; the record has the others." if more else "")
    yield canvas.finish(figure, "quantization-histograms", f"Weights and activations: {p.label}", caption, png)


def _bars(axes: Axes, each: LayerHistogram, color: str) -> None:
    bins = len(each.counts)
    step = (each.high - each.low) / bins
    edges = [each.low + step * index for index in range(bins + 1)]
    axes.stairs([max(count, 0.5) for count in each.counts], edges, baseline=0.5, fill=True, color=color)
    axis.log_axis(axes, "y", 0.5, max(2.0, *each.counts), axis.short)
    axes.set_xlim(each.low, each.high)
    ticks = axis.linear_ticks(each.low, each.high, 4)
    axis.fixed_ticks(axes, "x", ticks, [axis.short(tick) for tick in ticks])


def _percent(value: float) -> str:
    return f"{axis.short(value * 100)} %"
