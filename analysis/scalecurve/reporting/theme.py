"""Colors, markers and line styles of a report's plots. HTML re-colors them to follow the page's theme."""

from dataclasses import dataclass
from typing import Any

INK = "#1c1d1f"
FAINT = "#6d6e72"
GRID = "#dcdde0"
PAPER = "#fefefd"
# Okabe and Ito, "Color universal design" (2008), without yellow and black, which vanish on one of the two backgrounds.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHED: Any = (0, (4, 3))
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
CSS_VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)", PAPER: "var(--paper)"} | {
    color.lower(): f"var(--c{index})" for index, color in enumerate(PALETTE)
}


@dataclass(frozen=True)
class Style:
    """How one series differs from others: in color, marker and line at once."""

    color: str
    marker: str
    line: Any

    @property
    def curve(self) -> dict[str, Any]:
        return {"color": self.color, "marker": self.marker, "linestyle": self.line}


def style(index: int) -> Style:
    """The style of the series with this index: the first six differ in color, the first 28 in marker and line."""
    return Style(
        PALETTE[index % len(PALETTE)],
        MARKERS[index % len(MARKERS)],
        DASHES[(index + 2 * (index // len(MARKERS))) % len(DASHES)],
    )
