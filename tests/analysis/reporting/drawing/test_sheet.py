"""A sheet's geometry, of texts as they are drawn."""

from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from scalecurve.reporting.drawing import Sheet, axis
from scalecurve.reporting.drawing.render import plot_settings

_POINTS_AN_INCH = 72


@pytest.mark.parametrize("widest", ["4", "0.0035", "100,000"])
def test_the_label_of_an_axis_stands_apart_from_its_ticks_and_inside_the_figure(widest: str) -> None:
    with plot_settings():
        sheet = Sheet(2)
        for panel in sheet.panels:
            axis.fixed_ticks(panel, "y", [0.5], [widest])
            panel.set_ylabel("Cost per epoch")
        canvas: Any = FigureCanvasAgg(sheet.figure)
        canvas.draw()
        outside = 0.0  # where the room of a panel's label begins
        for panel in sheet.panels:
            label = panel.yaxis.label.get_window_extent()
            (tick,) = panel.get_yticklabels()
            gap = (tick.get_window_extent().x0 - label.x1) * _POINTS_AN_INCH / sheet.figure.dpi
            assert gap >= 3
            assert label.x0 >= outside
            outside = panel.get_window_extent().x1
