"""A figure of equal panels with a legend under them.

matplotlib's object interface only (no pyplot, no global state). Layout is computed here rather than by
``tight_layout``, which draws every text twice. All lengths are inches.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalecurve.render.labels import drop_folders, shortened
from scalecurve.reporting.drawing.axis import factor_powers_of_ten, mark_logarithms
from scalecurve.reporting.drawing.views import form
from scalecurve.reporting.theme import GRID

PANEL_WIDTH, PANEL_HEIGHT = 3.9, 2.9
LEFT, RIGHT, TOP, BOTTOM, GAP_X, GAP_Y = 0.82, 0.2, 0.34, 0.48, 0.86, 0.9
WIDE_PANEL = 2 * PANEL_WIDTH + GAP_X
RIGHT_AXIS = 0.75
LEGEND_ROW = 0.21
SMALL_TITLE = 8.0
# Bold letters that fit over a panel at 10 and at 8 points.
TITLE_CHARACTERS, SMALL_TITLE_CHARACTERS = 44, 56
_LEGEND_MARK, _LEGEND_CHARACTER = 0.55, 0.075
DPI = 144
NARROW_PANEL, LOW_PANEL = 3.0, 2.3  # of a phone's screen, with its axes

T = TypeVar("T")
Place = tuple[str, str, int, str]
"""A point among those of a report: its experiment, series, worker count and layout."""


@dataclass(frozen=True)
class Drawing:
    """A finished figure, its title and the caption under it.

    ``tips`` say what its marks mean, by the ids of these marks, and ``places`` the point of each; ``curves`` are the
    labels of what a reader can hide.
    """

    figure: Figure
    title: str
    caption: str
    tips: tuple[str, ...] = ()
    places: tuple[Place | None, ...] = ()
    curves: tuple[str, ...] = ()


class Sheet:
    """``count`` panels in rows of ``columns``; ``labels`` are what the legend will hold, which needs room for them.

    Without ``labels`` there is no legend, or one of ``legend_rows`` rows. Drawing code fills ``panels``, and
    ``handles`` with the artists of the legend by their labels. ``under`` are the labels of each panel's own legend,
    see ``legend_under``.
    """

    def __init__(
        self,
        count: int = 1,
        labels: Sequence[str] = (),
        *,
        columns: int = 2,
        width: float = PANEL_WIDTH,
        height: float = PANEL_HEIGHT,
        right: float = RIGHT,
        top: float = TOP,
        legend_rows: int = 0,
        under: Sequence[Sequence[str]] = (),
    ) -> None:
        self.labels = list(labels)
        self.handles: dict[str, Any] = {}
        self._tips: list[str] = []
        self._places: list[Place | None] = []
        self._marks = 0
        self._terse: dict[str, str] = {}
        self._legend_columns = 0
        self._legend_characters = 0
        if form().phone:
            columns, width, height = 1, min(width, NARROW_PANEL), min(height, LOW_PANEL)
        columns = min(columns, count)
        content = columns * width + (columns - 1) * GAP_X
        self._width, self._height = width, height
        room_under = max((self._shape_under(each)[1] for each in under), default=0) * LEGEND_ROW
        if labels:
            self._legend_characters = int((LEFT + content + RIGHT - _LEGEND_MARK) / _LEGEND_CHARACTER)
            if max(map(len, labels)) > self._legend_characters:
                self._terse = drop_folders(labels)
            folded = [self._fold_label(label) for label in labels]
            self._legend_columns, legend_rows = legend_shape(folded, LEFT + content + RIGHT)
        rows = -(-count // columns)
        total_width = LEFT + content + right
        foot = BOTTOM + room_under + legend_rows * LEGEND_ROW + (0.03 if legend_rows else 0)
        gap = GAP_Y + room_under
        total_height = top + rows * height + (rows - 1) * gap + foot
        self.figure = Figure(figsize=(total_width, total_height), dpi=DPI)
        self.panels: list[Axes] = []
        for index in range(count):
            row, column = divmod(index, columns)
            left = LEFT + column * (width + GAP_X)
            bottom = foot + (rows - 1 - row) * (height + gap)
            place = (left / total_width, bottom / total_height, width / total_width, height / total_height)
            self.panels.append(_plain_axes(self.figure, place))

    def name_panels(self, names: Sequence[str], before: Sequence[str] = (), after: Sequence[str] = ()) -> None:
        """Put the names of series over the panels, shortened together; ``before`` and ``after`` stay as they are.

        Where one is long, all lose the folders of their axes; a long name gets two smaller lines, and is cut where it
        does not fit them.
        """
        short, _ = shortened(names)
        terse = drop_folders(short.values())
        room = self._width / PANEL_WIDTH if form().phone else 1.0

        def titles(text: Mapping[str, str]) -> list[str]:
            edges = zip(names, before or [""] * len(names), after or [""] * len(names), strict=True)
            return [f"{start}{text[name]}{end}" for name, start, end in edges]

        whole = titles(short)
        if max(map(len, whole)) > TITLE_CHARACTERS * room:
            whole = titles({name: terse[text] for name, text in short.items()})
        for panel, title in zip(self.panels, whole, strict=True):
            if len(title) <= TITLE_CHARACTERS * room:
                panel.set_title(title, loc="left")
            else:
                lines = textwrap.wrap(title, int(SMALL_TITLE_CHARACTERS * room), max_lines=2, placeholder=" …")
                panel.set_title("\n".join(lines), loc="left", fontsize=SMALL_TITLE)

    def legend_under(self, panel: Axes, handles: Sequence[Any]) -> None:
        """A legend of the panel's own lines under its axis, whose room ``under`` reserved."""
        labels = [self._fold_under_panel(str(handle.get_label())) for handle in handles]
        panel.legend(
            handles=handles,
            labels=labels,
            loc="upper center",
            ncols=self._shape_under(labels)[0],
            bbox_to_anchor=(0.5, -(BOTTOM - 0.06) / self._height),
            borderaxespad=0,
            handlelength=2.6,
            columnspacing=1.2,
            fontsize=8,
        )

    def _shape_under(self, labels: Sequence[str]) -> tuple[int, int]:
        return legend_shape([self._fold_under_panel(label) for label in labels], self._width) if labels else (1, 0)

    def _fold_under_panel(self, label: str) -> str:
        return _wrap_label(label, int((self._width - _LEGEND_MARK) / _LEGEND_CHARACTER))

    def tip(self, axes: Axes, x: float, y: float, text: str, place: Place | None = None) -> None:
        """Say ``text`` where a reader points at (x, y); ``place`` is the point whose trials stand behind it."""
        axes.plot([x], [y], "o", ms=11, alpha=0, zorder=5, gid=f"tip-{len(self._tips)}")
        self._tips.append(text)
        self._places.append(place)

    def belongs(self, label: str, *artists: Any) -> None:
        """The artists are hidden together with the curve of this label."""
        for artist in artists:
            artist.set_gid(f"curve-{self.labels.index(label)}-{self._marks}")
            self._marks += 1

    def drawing(self, title: str, caption: str) -> Drawing:
        handles = [self.handles[label] for label in self.labels or self.handles if label in self.handles]
        if handles:
            self.figure.legend(
                handles=handles,
                labels=[self._fold_label(str(handle.get_label())) for handle in handles],
                loc="lower center",
                ncols=self._legend_columns or len(handles),
                bbox_to_anchor=(0.5, 0.0),
                borderaxespad=0.25,
                handlelength=2.6,
                columnspacing=1.6,
                fontsize=8.5,
            )
        factor_powers_of_ten(self.figure.axes)
        for axes in self.figure.axes:
            mark_logarithms(axes)
        curves = tuple(self.labels) if self._marks else ()
        return Drawing(self.figure, title, caption, tuple(self._tips), tuple(self._places), curves)

    def _fold_label(self, label: str) -> str:
        """A label in lines that fit the figure."""
        return _wrap_label(self._terse.get(label, label), self._legend_characters or len(label) or 1)


def first(items: Sequence[T], most: int, noun: str) -> tuple[Sequence[T], str]:
    """The first ``most`` items, and a sentence for the caption that says how many are omitted."""
    more = len(items) - most
    return items[:most], f" The first {most} {noun}; {more} more in the table." if more > 0 else ""


def legend_shape(labels: Sequence[str], width: float) -> tuple[int, int]:
    """(columns, rows) of a legend with these labels in a figure of this width."""
    lines = [label.split("\n") for label in labels]
    entry = _LEGEND_MARK + _LEGEND_CHARACTER * max(len(line) for each in lines for line in each)
    columns = max(1, min(len(labels), int(width / entry)))
    rows = -(-len(labels) // columns)
    return columns, max(sum(map(len, lines[start : start + rows])) for start in range(0, len(lines), rows))


def _wrap_label(label: str, most: int) -> str:
    """A label in lines of at most so many characters."""
    return label if len(label) <= most else "\n".join(textwrap.wrap(label, most, break_on_hyphens=False))


def _plain_axes(figure: Figure, place: tuple[float, float, float, float]) -> Axes:
    axes = figure.add_axes(place)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.yaxis.labelpad = 3.5  # points, so that it is inside the figure beside ticks of seven characters
    return axes
