"""What training reached over the values of each axis: a row of panels for each axis, with a legend of its lines."""

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes

from scalecurve.features.accuracy.plots.training import (
    ACCURACY,
    LOG_FROM,
    MOST_LINES,
    TO_TARGET,
    draw_lines,
    known,
    mark_legend,
)
from scalecurve.features.accuracy.results import PointTraining
from scalecurve.features.accuracy.results.along_axes import ValueTraining, along_axes
from scalecurve.features.accuracy.results.outcome import format_axis_value
from scalecurve.features.accuracy.sections import training_of
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first
from scalecurve.reporting.drawing.sheet import PANEL_WIDTH, SMALL_TITLE, SMALL_TITLE_CHARACTERS
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.text import count

MOST_PANELS = 9
_NARROW = 2.9  # inches, where three panels stand beside each other
_CAPTION = (
    "Points that differ in this axis only, at what stands over its first panel: means over repetitions; bars are "
    "intervals. Lines are moved apart a little. Epochs and time to the target are of the repetitions that reached it; "
    "a cross is a point where none did: all epochs that it trained, and the time of them, for the accuracy on the left."
)


@plot("training-axes", section="training-axes", order=10)
def draw_axis_panels(analysis: Analysis) -> Drawing | None:
    """Draw a row of panels for each axis: accuracy, and epochs and time to the target where there is one."""
    by_axis: dict[tuple[str, str], list[ValueTraining]] = {}
    for r in analysis.once(training_along_axes):
        by_axis.setdefault((r.training.bundle, r.axis), []).append(r)
    if not by_axis:
        return None
    groups = list(map(_Group, by_axis.values()))
    most = max(len(group.quantities) for group in groups)
    shown, omitted = first(groups, MOST_PANELS // most, "axes")
    row = most if most > 1 else min(2, len(shown))
    legends = [legend for group in shown for legend in group.legends(most)]
    sheet = Sheet(len(legends), columns=row, width=PANEL_WIDTH if row < 3 else _NARROW, under=legends)
    for index, group in enumerate(shown):
        group.draw(sheet, sheet.panels[index * most : (index + 1) * most])
    return sheet.drawing("Training along each axis", _CAPTION + omitted)


class _Group:
    """The values of one axis of one experiment; ``common`` is what all of its lines share."""

    def __init__(self, results: Sequence[ValueTraining]) -> None:
        self.axis = results[0].axis
        every = [[*filter(None, r.rest.split(", ")), count(r.training.point.workers, "worker")] for r in results]
        self.common = [part for part in every[0] if all(part in others for others in every)]
        self.lines: dict[str, list[ValueTraining]] = {}
        for r, parts in zip(results, every, strict=True):
            self.lines.setdefault(", ".join(part for part in parts if part not in self.common), []).append(r)
        self.lines = dict(list(self.lines.items())[:MOST_LINES])
        self.results = [r for members in self.lines.values() for r in members]
        points = [r.training for r in self.results]
        self.quantities = known((ACCURACY, *TO_TARGET), points)
        self.marks = mark_legend(self.quantities, points)

    def legends(self, panels: int) -> list[list[str]]:
        """What stands under each of so many panels: lines under the first, marks under the second."""
        lines = list(self.lines) if len(self.lines) > 1 else []
        return [lines, list(self.marks), *[[]] * panels][:panels]

    def draw(self, sheet: Sheet, panels: Sequence[Axes]) -> None:
        for panel in panels[len(self.quantities) :]:
            panel.set_visible(False)
        for panel, quantity in zip(panels, self.quantities, strict=False):
            places = _value_axis(panel, self.results)
            lines = {n: [(places[format_axis_value(r.value)], r.training) for r in rs] for n, rs in self.lines.items()}
            artists = draw_lines(sheet, panel, quantity, lines, self._spell_value)
            panel.set_xlabel(self.axis)
            if panel is panels[0]:
                at = f"at {', '.join(self.common)}" if self.common else ""
                lines_of_title = textwrap.wrap(at, SMALL_TITLE_CHARACTERS, max_lines=2, placeholder=" ... (table)")
                panel.set_title("\n".join(lines_of_title), loc="left", fontsize=SMALL_TITLE)
                if len(artists) > 1:
                    sheet.legend_under(panel, artists)
        if self.marks:
            sheet.legend_under(panels[1], list(self.marks.values()))

    def _spell_value(self, p: PointTraining) -> str:
        return f"{self.axis} {format_axis_value(p.point.axes[self.axis])}"


def training_along_axes(analysis: Analysis) -> tuple[ValueTraining, ...]:
    """Find every axis of the experiments that changed what training reached, or could have."""
    return along_axes(analysis.once(training_of).points)


def _value_axis(panel: Axes, results: Sequence[ValueTraining]) -> dict[str, float]:
    """Where each value is: in proportion for numbers, on a log scale where they are far apart, else side by side."""
    values = list({format_axis_value(r.value): r.value for r in results}.values())
    names = [format_axis_value(value) for value in values]
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        places = dict(zip(names, map(float, range(len(names))), strict=True))
        axis.category_limits(panel, len(names), least=2)
    else:
        places = dict(zip(names, numbers, strict=True))
        low, high = min(numbers), max(numbers)
        if low > 0 and high >= LOG_FROM * low:
            panel.set_xscale("log")
            air = (high / low) ** 0.06
            panel.set_xlim(low / air, high * air)
        else:
            air = (high - low) * 0.06
            panel.set_xlim(low - air, high + air)
    axis.fixed_ticks(panel, "x", list(places.values()), [axis.folded(name) for name in names])
    return places
