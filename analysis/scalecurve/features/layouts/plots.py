"""Layouts beside the best one of their worker count, the fastest first."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from scalecurve.curves.along_axes import spelled
from scalecurve.features.layouts.best_layout import PREFIX, BestLayout, Member, Standing
from scalecurve.features.layouts.sections import layout_results
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, interval_bars, level_line, style
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

MOST_PANELS, MOST_LAYOUTS = 4, 8
_WIDEST = 13  # characters of a line under a mark
_LETTERS = {dimension: dimension.value[0].upper() for dimension in Dimension}
_COLORS: Mapping[Standing, int] = {Standing.best: 0, Standing.tied: 5, Standing.slower: 1, Standing.undecided: 4}
_CAPTION = (
    "Throughput over that of the best layout of the same worker count, the fastest first; bars are intervals. Letters "
    "are degrees above 1: R replicate, S shard, T tensor, P pipeline, C context, E expert."
)


@plot("layouts", section="layouts", order=10)
def layouts(analysis: Analysis) -> Drawing | None:
    """Draw a panel for each worker count with several layouts; one worker has none, whatever its degrees are called."""
    several = [r for r in analysis.once(layout_results) if len({label_of(m.point) for m in r.members}) > 1]
    results = sorted(several, key=lambda result: -result.point.workers)
    if not results:
        return None
    shown, omitted = first(results, MOST_PANELS, "groups")
    standings = [each for each in Standing if any(each is m.standing for r in shown for m in r.members)]
    sheet = Sheet(len(shown), [each.value for each in standings])
    for panel, result in zip(sheet.panels, shown, strict=True):
        _panel(sheet, panel, result)
        where = f"{result.point.mode.value}, {count(result.point.workers, 'worker')}"
        panel.set_title(f"{where}, {result.rest}" if result.rest else where, loc="left")
        panel.set_ylabel("Of the best")
    return sheet.drawing("Layouts beside the best", _CAPTION + omitted)


def label_of(point: Point) -> str:
    """Spell a layout in a few letters: its degrees above 1, and what else varies."""
    sizes = point.parallelism.sizes if point.parallelism is not None else {}
    parts = [f"{_LETTERS[dimension]}{size}" for dimension, size in sizes.items() if size > 1]
    names = {PREFIX + dimension.value for dimension in Dimension} if sizes else set()
    parts += [spelled(value) for name, value in point.axes.items() if name not in names]
    return axis.folded(" ".join(parts), _WIDEST) or "one"


def _panel(sheet: Sheet, panel: Axes, result: BestLayout) -> None:
    members = result.members[:MOST_LAYOUTS]
    for place, member in enumerate(members):
        _mark(sheet, panel, place, member)
    level_line(panel, 1)
    ends = [end for m in members for end in (m.of_best.value, m.of_best.high or 0.0)]
    axis.linear_axis(panel, "y", 0, max(1.0, *ends) * 1.08, axis.percent)
    axis.fixed_ticks(panel, "x", list(range(len(members))), [label_of(member.point) for member in members])
    axis.category_limits(panel, len(members), least=2)
    panel.tick_params(axis="x", labelsize=7)


def _mark(sheet: Sheet, panel: Axes, place: int, member: Member) -> None:
    look = style(_COLORS[member.standing])
    share = member.of_best
    (mark,) = panel.plot([place], [share.value], look.marker, color=look.color, label=member.standing.value)
    interval_bars(panel, [(place, share.low, share.high)], look.color, alpha=0.38)
    sheet.handles[member.standing.value] = mark
    sheet.tip(
        panel,
        place,
        share.value,
        f"{member.point.axes_in_words}: {formatting.percent(share.value)}, {member.standing.value}",
    )
