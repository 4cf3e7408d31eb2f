"""Marks that several plots share."""

from matplotlib.figure import Figure

from scalecurve.reporting.drawing.marks import hollow_marks, interval_bars
from scalecurve.reporting.theme import PAPER, style


def test_an_interval_that_is_not_known_has_no_bar() -> None:
    axes = Figure().add_subplot()
    heights = interval_bars(axes, [(1, 0.9, 1.1), (2, None, None), (3, 0.0, float("inf"))], "black")
    assert heights == [0.9, 1.1]
    (bars,) = axes.collections
    assert len(bars.get_segments()) == 1  # type: ignore[attr-defined]  # vlines gives lines


def test_hollow_marks_are_filled_with_paper() -> None:
    axes = Figure().add_subplot()
    hollow_marks(axes, [(2, 1.9), (4, 3.8)], style(1))
    (marks,) = axes.lines
    assert marks.get_markerfacecolor() == PAPER
    assert (marks.get_marker(), marks.get_linestyle()) == (style(1).marker, "None")
    hollow_marks(axes, [], style(1))
    assert len(axes.lines) == 1
