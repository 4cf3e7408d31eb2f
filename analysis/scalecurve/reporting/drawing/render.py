"""A drawing as SVG and PNG: the same figure gives the same bytes (no date, fixed ids)."""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG

from scalecurve.reporting.content import Plot, View
from scalecurve.reporting.drawing.sheet import Drawing
from scalecurve.reporting.drawing.views import Form, use_form
from scalecurve.reporting.theme import FAINT, INK, PAPER

SETTINGS: dict[str, Any] = {
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "scalecurve",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titley": 1.0,  # so that matplotlib searches no place for titles, which takes time
    "axes.facecolor": PAPER,
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
    "text.parse_math": False,
}


@contextmanager
def plot_settings() -> Iterator[None]:
    """matplotlib's defaults with ours on top, whatever the user's matplotlibrc says."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Letters that the font lacks are drawn by the browser, from the text in the SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        matplotlib.rcdefaults()
        parameters: Any = matplotlib.rcParams  # its keys are typed one by one, differently in each version
        parameters.update(SETTINGS)
        yield


def render_all(name: str, draw: Callable[[], Drawing | None], png: bool, views: bool) -> Plot | None:
    """The figure, and with ``views`` the forms of it that differ; None where there is nothing to draw."""
    drawing = draw()
    if drawing is None:
        return None
    plot = render(name, drawing, png)
    if not views:
        return plot
    forms = {"phone": Form(phone=True)}
    if any(axes.get_yscale() == "log" for axes in drawing.figure.axes):
        forms["linear"] = Form(linear=True)
    others = ((kind, _draw_as(form, draw)) for kind, form in forms.items())
    return replace(plot, views=tuple(View(kind, text) for kind, text in others if text and text != plot.svg))


def _draw_as(form: Form, draw: Callable[[], Drawing | None]) -> str:
    with use_form(form):
        drawing = draw()
    return svg(drawing) if drawing else ""


def render(name: str, drawing: Drawing, png: bool) -> Plot:
    """SVG, and PNG where it is needed."""
    data = None
    if png:  # before the SVG, whose canvas sets the figure to 72 dots an inch
        raster = io.BytesIO()
        agg: Any = FigureCanvasAgg(drawing.figure)
        agg.print_png(raster, metadata={"Software": None})
        data = raster.getvalue()
    return Plot(name, drawing.title, drawing.caption, svg(drawing), data, drawing.tips, drawing.places, drawing.curves)


def svg(drawing: Drawing) -> str:
    """The figure's SVG alone."""
    out = io.StringIO()
    vector: Any = FigureCanvasSVG(drawing.figure)
    vector.print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()
