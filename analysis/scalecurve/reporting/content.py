"""What a report consists of before it becomes HTML, Markdown or JSON: sections of plots, tables and sentences."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

from scalecurve.render.table import Table, to_json
from scalecurve.reporting.answer import Answer
from scalecurve.reporting.registry import QUESTIONS
from scalecurve.reporting.theme import CSS_VARIABLES

_PLACES = re.compile(r' (?:d|x|y|points|transform)="[^"]*"')
_BEYOND_A_HUNDREDTH = re.compile(r"(\.\d\d)\d+")
_USED_IDS = re.compile(r'(?:url\(#|href="#)([^")]+)')
FAMILY = "font-family: 'DejaVu Sans', sans-serif; "
"""What the page's style says once."""
_KEPT_IDS = ("tip-", "curve-")


@dataclass(frozen=True)
class View:
    """One form of a figure: ``wide`` or ``phone``, and with its first or its ``linear`` axis."""

    kind: str
    svg: str


@dataclass(frozen=True)
class Plot:
    """A rendered figure: SVG and PNG bytes, and the caption under it.

    ``tips`` are what its marks say by their number, ``places`` the points behind them, ``curves`` the labels of
    curves that a reader can hide, and ``views`` further forms of the figure that a page can show in its place.
    """

    name: str
    title: str
    caption: str
    svg: str
    png: bytes | None
    tips: tuple[str, ...] = ()
    places: tuple[tuple[str, str, int, str] | None, ...] = ()
    curves: tuple[str, ...] = ()
    views: tuple[View, ...] = ()

    @property
    def alt(self) -> str:
        """The numbers, for a reader who does not see the figure."""
        return ". ".join((self.title, *dict.fromkeys(self.tips))) if self.tips else f"{self.title}. {self.caption}"

    def inline(self, view: View | None = None, anchors: Mapping[tuple[str, str, int, str], str] = {}) -> str:
        """A form's SVG for an HTML page: no prolog, ids of its own, its own size, colors that follow the theme.

        ``anchors`` are where the page has the trials of a point.
        """
        text = view.svg if view else self.svg
        prefix = f"{self.name}-{view.kind}" if view else self.name
        text = _slim(text[text.index("<svg") :])
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", text)
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        width = re.search(r'<svg[^>]*? width="([\d.]+)pt"', text)
        style = f' style="max-width: {float(width[1]) * 4 / 3:.0f}px"' if width else ""
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', rf"\1{style}", text, count=1)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        text = re.sub(rf'<g id="{re.escape(prefix)}-tip-(\d+)">', lambda match: self._tip(match, anchors), text)
        for color, variable in CSS_VARIABLES.items():
            text = text.replace(color, variable)
        return text

    def _tip(self, match: re.Match[str], anchors: Mapping[tuple[str, str, int, str], str]) -> str:
        number = int(match[1])
        place = self.places[number] if number < len(self.places) else None
        trials = f' data-trials="{anchors[place]}"' if place is not None and place in anchors else ""
        return f'{match[0][:-1]} class="tip"{trials}><title>{html.escape(self.tips[number])}</title>'


def _slim(svg: str) -> str:
    """Half the bytes and no difference to see: places to a hundredth of a point, ids that something uses, no layout."""
    used = set(_USED_IDS.findall(svg))
    svg = _PLACES.sub(lambda match: _BEYOND_A_HUNDREDTH.sub(r"\1", match[0]), svg)
    svg = re.sub(
        r' id="([^"]*)"', lambda match: match[0] if match[1] in used or match[1].startswith(_KEPT_IDS) else "", svg
    )
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg).replace(FAMILY, "")
    return re.sub(r">\s+<", "><", svg)


@dataclass(frozen=True)
class Section:
    """One heading with what stands under it; empty tables and missing plots are removed beforehand."""

    name: str
    title: str
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    sentences: tuple[str, ...] = ()
    question: str = "more"


@dataclass(frozen=True)
class Content:
    """A whole report. ``subjects`` say what was measured, ``warnings`` what a reader must know before trusting it.

    ``curve`` is the figure of the first screen; the sections have it in full. ``over`` is its axis, "" for workers.
    """

    title: str
    subjects: tuple[str, ...]
    headlines: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    answer: Answer
    curve: Plot | None = None
    over: str = ""

    @property
    def first_question(self) -> str:
        """What the figure of the first screen answers."""
        if self.over:
            return f"What does {self.over} change?"
        return QUESTIONS["scale"] if self.answer.scales else QUESTIONS["train"]

    def group_by_question(self) -> list[tuple[str, str, tuple[Section, ...]]]:
        """(name, question, its sections) in order; what training reached comes first where nothing scales."""
        names = sorted(QUESTIONS, key=lambda name: name != "train") if not self.answer.scales else list(QUESTIONS)
        grouped = ((n, tuple(s for s in self.sections if s.question == n)) for n in names)
        return [(name, QUESTIONS[name], sections) for name, sections in grouped if sections]

    def json(self) -> str:
        """Subjects, headlines, warnings, sentences and tables; plots are files of their own."""
        return to_json(
            {
                "schema": "scalecurve.dev/report/v1",
                "title": self.title,
                "subjects": self.subjects,
                "headlines": self.headlines,
                "answer": self.answer.plain(),
                "warnings": self.warnings,
                "methods": [sentence for section in self.sections for sentence in section.sentences],
                "tables": {table.name: table.plain() for table in self.tables},
            }
        )

    @property
    def plots(self) -> tuple[Plot, ...]:
        return tuple(plot for section in self.sections for plot in section.plots)

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(table for section in self.sections for table in section.tables)
