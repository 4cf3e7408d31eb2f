"""Accuracy and error over bits, and value histograms of a few layers."""

from matplotlib.axes import Axes

from scalecurve.features.accuracy.results import PointTraining
from scalecurve.features.accuracy.results.quantization import STAGES, facts_of, float_accuracy, rows_of, share
from scalecurve.features.accuracy.sections import training_of
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, level_line, style, theme
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve.statistics.mean import mean
from scalecurve_api.features.quantization.facts import LayerHistogram

MOST_POINTS = 4
LAYERS = 4
_CAPTION = (
    "Means over repetitions by what is quantized; bars are intervals. Solid: one scale per tensor; dashed: one per "
    "channel of the weights. Diamonds are PyTorch's built-in quantization at 8 bits; the horizontal line is float32."
)
KINDS = {"weights": "Weight", "biases": "Bias", "activations": "Activation"}
_HISTOGRAMS = (
    "Parameters of one repetition with batch norm folded in, and outputs of each layer on the calibration batches, in "
    "bins of equal width; counts on a log scale."
)


@plot("quantization", section="quantization", order=10)
def quantization(analysis: Analysis) -> Drawing | None:
    """Draw a row of two panels for each point."""
    quantized = _select_quantized_points(analysis)
    if not quantized:
        return None
    shown, omitted = first(quantized, MOST_POINTS, "points")
    drawn = {stage for p in shown for stages in rows_of(p).values() for stage in stages}
    sheet = Sheet(2 * len(shown), [title for stage, title in STAGES.items() if stage in drawn])
    for index, p in enumerate(shown):
        by_accuracy, by_error = sheet.panels[2 * index : 2 * index + 2]
        sheet.handles |= _panel(by_accuracy, p, of_error=False)
        sheet.handles |= _panel(by_error, p, of_error=True)
        for panel in (by_accuracy, by_error) if len(quantized) > 1 else ():
            panel.set_title(p.label, loc="left")
    return sheet.drawing("Accuracy and error over bits", _CAPTION + omitted)


def _select_quantized_points(analysis: Analysis) -> list[PointTraining]:
    return [p for p in analysis.once(training_of).points if rows_of(p)]


def _panel(axes: Axes, p: PointTraining, *, of_error: bool) -> dict[str, object]:
    table = rows_of(p)
    widths = sorted({bits for bits, _ in table})
    handles: dict[str, object] = {}
    heights = []
    for index, (stage, title) in enumerate(STAGES.items()):
        for scheme, dashed in (("tensor", False), ("channel", True)):
            by_width = [(bits, rows) for bits in widths if (rows := table.get((bits, scheme), {}).get(stage))]
            if not by_width:
                continue
            look = style(index)
            values = [
                mean([row.error for row in rows], p.level, least=0) if of_error else share(p, rows)
                for _, rows in by_width
            ]
            # Apart by a little, so that intervals at one width do not hide one another.
            places = [bits + (index - 1) * 0.1 + (0.05 if dashed else 0) for bits, _ in by_width]
            (line,) = axes.plot(
                places,
                [value.value for value in values],
                color=look.color,
                linestyle="none" if stage == "torch" else theme.DASHES[1] if dashed else "-",
                linewidth=1.3,
                marker=look.marker,
                markersize=4,
                markerfacecolor=theme.PAPER if dashed else look.color,
                label=title,
            )
            handles.setdefault(title, line)
            bars = ((at, value.low, value.high) for at, value in zip(places, values, strict=True))
            ends = interval_bars(axes, bars, look.color, width=2.4, alpha=0.25)
            heights += [*(value.value for value in values), *ends]
    axes.set_xlim(widths[-1] + 0.5, widths[0] - 0.5)
    axis.fixed_ticks(axes, "x", widths, [str(bits) for bits in widths])
    axes.set_xlabel("Bits")
    if of_error:
        axes.set_ylabel("Error of the logits")
        positive = [height for height in heights if height > 0]
        if positive:
            axis.log_axis(axes, "y", min(positive), max(positive), axis.percent)
    else:
        axes.set_ylabel("Accuracy")
        axis.linear_axis(axes, "y", 0, 1.03, axis.percent)
        level_line(axes, float_accuracy(p).value)
    return handles


@plot("quantization-histograms", section="quantization", order=20)
def histograms(analysis: Analysis) -> Drawing | None:
    """Draw histograms of weights, biases and activations of a few layers of the first point."""
    quantized = _select_quantized_points(analysis)
    by_place = {(str(h.kind), h.layer): h for h in facts_of(quantized[0])[0].histograms} if quantized else {}
    layers = list(dict.fromkeys(layer for _, layer in by_place))
    if not layers:
        return None
    count = min(LAYERS, len(layers))
    chosen = [layers[round(i * (len(layers) - 1) / max(1, count - 1))] for i in range(count)]
    kinds = [kind for kind in KINDS if any(kind == known for known, _ in by_place)]
    sheet = Sheet(len(kinds) * count, columns=count, width=2.0, height=1.7)
    for row, kind in enumerate(kinds):
        for column, layer in enumerate(chosen):
            panel = sheet.panels[row * count + column]
            if histogram := by_place.get((kind, layer)):
                _bars(panel, histogram, theme.PALETTE[row])
            panel.set_title(layer if row == 0 else "", loc="left", fontsize=9)
            panel.set_xlabel(KINDS[kind])
    more = len(layers) - count
    caption = _HISTOGRAMS + (f" {count} layers of {len(layers)}; the record has the others." if more else "")
    title = f"{', '.join(kinds[:-1])} and {kinds[-1]}".capitalize()
    return sheet.drawing(f"{title}: {quantized[0].label}", caption)


def _bars(axes: Axes, histogram: LayerHistogram, color: str) -> None:
    step = (histogram.high - histogram.low) / len(histogram.counts)
    edges = [histogram.low + step * index for index in range(len(histogram.counts) + 1)]
    axes.stairs([max(count, 0.5) for count in histogram.counts], edges, baseline=0.5, fill=True, color=color)
    axis.log_axis(axes, "y", 0.5, max(2.0, *histogram.counts), axis.short)
    axes.set_xlim(histogram.low, histogram.high)
    ticks = axis.linear_ticks(histogram.low, histogram.high, 4)
    axis.fixed_ticks(axes, "x", ticks, [axis.short(tick) for tick in ticks])
