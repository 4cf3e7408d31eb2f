"""How many training items every class has, at any number of classes."""

from matplotlib.axes import Axes

from scalecurve.features.accuracy.results.tables import class_name, data_sets
from scalecurve.features.accuracy.sections import training_of
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, theme
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.record.facts.dataset import DatasetFacts

MOST_SETS, MOST_BARS, MOST_NAMES = 4, 60, 20
_CAPTION = "Training items of each class."
_SORTED = f" With more than {MOST_BARS} classes, from the largest to the smallest."
_CHANGED = " Outlines are the items as stored, before workload.data.labels changed them."


@plot("classes", section="data", order=5)
def class_histogram(analysis: Analysis) -> Drawing | None:
    """Draw a panel for each data set that differs; return None where classes were not counted."""
    sets = [(label, facts) for label, facts in data_sets(analysis.once(training_of).points) if facts.class_counts]
    if not sets:
        return None
    shown, omitted = first(sets, MOST_SETS, "data sets")
    sheet = Sheet(len(shown))
    for panel, (_, facts) in zip(sheet.panels, shown, strict=True):
        _bars(sheet, panel, facts)
        panel.set_ylabel("Training items")
    if len(shown) > 1:
        sheet.name_panels([label for label, _ in shown])
    caption = _CAPTION + _SORTED * any(len(facts.class_counts) > MOST_BARS for _, facts in shown)
    caption += _CHANGED * any(_has_changed_labels(facts) for _, facts in shown)
    return sheet.drawing("Training items per class", caption + omitted)


def _has_changed_labels(facts: DatasetFacts) -> bool:
    return facts.labels is not None and facts.labels.stored_counts != facts.class_counts


def _bars(sheet: Sheet, panel: Axes, facts: DatasetFacts) -> None:
    counts = facts.class_counts
    stored = facts.labels.stored_counts if facts.labels is not None and _has_changed_labels(facts) else []
    several = len(counts) > MOST_BARS
    order = sorted(range(len(counts)), key=lambda index: -counts[index]) if several else list(range(len(counts)))
    heights = [counts[index] for index in order]
    width = 1.0 if several else 0.8
    panel.bar(range(len(order)), heights, width=width, color=theme.PALETTE[0], linewidth=0, zorder=2)
    if len(stored) == len(counts):
        before = [stored[index] for index in order]
        panel.bar(
            range(len(order)), before, width=width, fill=False, edgecolor=theme.FAINT, linewidth=0 if several else 1
        )
        heights += before
    panel.set_xlim(-0.7, len(order) - 0.3)
    axis.linear_axis(panel, "y", 0, max(heights) * 1.06 or 1, axis.short)
    if several:
        ticks = [tick for tick in axis.whole_ticks(len(order)) if tick < len(order)]
        axis.fixed_ticks(panel, "x", ticks, [f"{tick:,.0f}" for tick in ticks])
        panel.set_xlabel("Classes by size")
    else:
        names = [class_name(facts, index) for index in order]
        every = -(-len(names) // MOST_NAMES)
        axis.fixed_ticks(panel, "x", list(range(0, len(names), every)), [name[:12] for name in names[::every]])
        if sum(map(len, names[::every])) > 40:
            for label in panel.get_xticklabels():
                label.set(rotation=35, ha="right", rotation_mode="anchor", fontsize=7)
    for place in sorted({0, len(order) - 1}):
        sheet.tip(panel, place, heights[place], f"{class_name(facts, order[place])}: {heights[place]:,} items")
