"""Figures that are cheap to draw and easy to read: geometry in inches, one palette, ink that HTML can re-colour.

matplotlib's object interface only (no pyplot, no global state). Layout is worked out here rather than by
``tight_layout``, which draws every text twice. SVG text stays text, so that it can be selected and re-coloured.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalecurve.render.labels import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1c1d1f"
FAINT = "#6d6e72"
GRID = "#dcdde0"
PAPER = "#fefefd"
# Okabe and Ito, "Color universal design" (2008), without yellow and black, which vanish on one of the two grounds.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_THEME = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)", PAPER: "var(--paper)"} | {
    color.lower(): f"var(--c{index})" for index, color in enumerate(PALETTE)
}

PANEL_WIDTH, PANEL_HEIGHT = 3.9, 2.9
LEFT, RIGHT, TOP, BOTTOM, GAP_X, GAP_Y = 0.78, 0.2, 0.34, 0.48, 0.82, 0.9
RIGHT_AXIS = 0.75
LEGEND_ROW = 0.21
SMALL_TITLE = 8.0
# What a panel's width holds of bold letters at 10 and at 8 points.
TITLE_CHARACTERS, SMALL_TITLE_CHARACTERS = 44, 56
DPI = 144
SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "scalecurve",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.linewidth": 0.8,
    "axes.facecolor": PAPER,
    "axes.unicode_minus": True,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "path.simplify": True,
    "text.parse_math": False,
}


@dataclass(frozen=True)
class Style:
    """How one series is told apart: by colour, marker and line at once."""

    color: str
    marker: str
    line: Any


@dataclass(frozen=True)
class Plot:
    """A drawn figure: SVG and PNG bytes, the sentence under it and the words for who cannot see it."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes | None

    def inline(self) -> str:
        """The SVG for an HTML page: no prolog, ids of its own, colours that follow the page's theme."""
        text = self.svg[self.svg.index("<svg") :]
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        for color, variable in _THEME.items():
            text = text.replace(color, variable)
        return text


def style(index: int) -> Style:
    """The look of the series with this index: the first six differ in colour, the first 28 in marker and line."""
    return Style(
        PALETTE[index % len(PALETTE)],
        MARKERS[index % len(MARKERS)],
        DASHES[(index + 2 * (index // len(MARKERS))) % len(DASHES)],
    )


@contextmanager
def settings() -> Iterator[None]:
    """matplotlib's defaults with ours on top, whatever the user's matplotlibrc says."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Letters that the font lacks are drawn by the browser, from the text in the SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        matplotlib.rcdefaults()
        parameters: Any = matplotlib.rcParams  # its keys are typed one by one, differently in each version
        parameters.update(SETTINGS)
        yield


def panels(
    count: int,
    columns: int,
    legend_rows: int = 0,
    width: float = PANEL_WIDTH,
    height: float = PANEL_HEIGHT,
    right: float = RIGHT,
) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels of one size, in rows of ``columns``, with room for a legend under them."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    total_width = LEFT + columns * width + (columns - 1) * GAP_X + right
    foot = BOTTOM + legend_rows * LEGEND_ROW + (0.03 if legend_rows else 0)
    total_height = TOP + rows * height + (rows - 1) * GAP_Y + foot
    figure = Figure(figsize=(total_width, total_height), dpi=DPI)
    axes = []
    for index in range(count):
        row, column = divmod(index, columns)
        left = LEFT + column * (width + GAP_X)
        bottom = foot + (rows - 1 - row) * (height + GAP_Y)
        place = (left / total_width, bottom / total_height, width / total_width, height / total_height)
        axes.append(_plain_axes(figure, place))
    return figure, axes


def name_panels(
    panels: Sequence[Axes], names: Sequence[str], before: Sequence[str] = (), after: Sequence[str] = ()
) -> None:
    """Put series' names over panels, shortened together: ``before`` and ``after`` are added to each as they are.

    A long name takes two smaller lines, and is cut where those do not hold it.
    """
    short, _ = shortened(names)
    for index, (panel, name) in enumerate(zip(panels, names, strict=True)):
        title = (before[index] if before else "") + short[name] + (after[index] if after else "")
        if len(title) <= TITLE_CHARACTERS:
            panel.set_title(title, loc="left")
        else:
            lines = textwrap.wrap(title, SMALL_TITLE_CHARACTERS, max_lines=2, placeholder=" …")
            panel.set_title("\n".join(lines), loc="left", fontsize=SMALL_TITLE)


def legend(figure: Figure, handles: Sequence[Any], columns: int) -> None:
    """A legend centred at the foot of the figure."""
    figure.legend(
        handles=list(handles),
        loc="lower center",
        ncols=columns,
        bbox_to_anchor=(0.5, 0.0),
        borderaxespad=0.25,
        handlelength=2.6,
        columnspacing=1.6,
        fontsize=8.5,
    )


def legend_shape(labels: Sequence[str], figure_width: float) -> tuple[int, int]:
    """(columns, rows) of a legend with these labels in a figure of this width in inches."""
    if not labels:
        return 1, 0
    entry = 0.55 + 0.075 * max(map(len, labels))
    columns = max(1, min(len(labels), int(figure_width / entry)))
    return columns, -(-len(labels) // columns)


def figure_width(count: int, columns: int, width: float = PANEL_WIDTH) -> float:
    """The width in inches of a figure of so many panels."""
    columns = min(columns, count)
    return LEFT + columns * width + (columns - 1) * GAP_X + RIGHT


def finish(figure: Figure, name: str, title: str, caption: str, png: bool) -> Plot:
    """Render: the same figure gives the same bytes (no date, fixed ids)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    data = None
    if png:  # before the SVG, whose canvas sets the figure to 72 dots an inch
        raster = io.BytesIO()
        agg: Any = FigureCanvasAgg(figure)
        agg.print_png(raster, metadata={"Software": None})
        data = raster.getvalue()
    out = io.StringIO()
    vector: Any = FigureCanvasSVG(figure)
    vector.print_svg(out, metadata={"Date": None, "Creator": None})
    return Plot(name, title, caption, out.getvalue(), data)


def _plain_axes(figure: Figure, place: tuple[float, float, float, float]) -> Axes:
    axes = figure.add_axes(place)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes
