"""What a report consists of before it becomes HTML, Markdown or JSON: sections of plots, tables and sentences."""

import re
from dataclasses import dataclass

from scalecurve.render.table import Table
from scalecurve.reporting.theme import CSS_VARIABLES


@dataclass(frozen=True)
class Plot:
    """A rendered figure: SVG and PNG bytes, and the caption under it."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes | None

    def inline(self) -> str:
        """The SVG for an HTML page: no prolog, ids of its own, colors that follow the page's theme."""
        text = self.svg[self.svg.index("<svg") :]
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        for color, variable in CSS_VARIABLES.items():
            text = text.replace(color, variable)
        return text


@dataclass(frozen=True)
class Section:
    """One heading with what stands under it; empty tables and missing plots are left out beforehand."""

    name: str
    title: str
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Content:
    """A whole report. ``subjects`` say what was measured, ``warnings`` what a reader must know before trusting it."""

    title: str
    subjects: tuple[str, ...]
    headlines: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def plots(self) -> tuple[Plot, ...]:
        return tuple(plot for section in self.sections for plot in section.plots)

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(table for section in self.sections for table in section.tables)
