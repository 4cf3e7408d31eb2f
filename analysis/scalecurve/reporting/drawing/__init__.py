"""What plots draw with: sheets of panels, axes, scales, marks and the theme."""

from scalecurve.reporting import theme
from scalecurve.reporting.drawing import axis
from scalecurve.reporting.drawing.marks import interval_bars, level_line
from scalecurve.reporting.drawing.sheet import WIDE_PANEL, Drawing, Sheet, first
from scalecurve.reporting.theme import Style, style

__all__ = ["WIDE_PANEL", "Drawing", "Sheet", "Style", "axis", "first", "interval_bars", "level_line", "style", "theme"]
