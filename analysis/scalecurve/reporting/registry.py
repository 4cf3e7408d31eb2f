"""Sections and plots register themselves: the core's, and those of installed packages.

A plot is a function of the findings that returns a drawing, or None where there is nothing to show::

    @plot("queue-time", section="time", order=30)
    def queue_time(findings: Findings) -> Drawing | None: ...

A module in ``scalecurve.reporting.plots`` needs no more than that. A package of its own names its modules by entry
points in the groups ``scalecurve.sections`` and ``scalecurve.plots``; importing them registers what they hold. The
modules of plots are imported when something is drawn, for they import matplotlib.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, TypeVar

from scalecurve.render.table import Table
from scalecurve.reporting.findings import Findings
from scalecurve_api.text import did_you_mean

if TYPE_CHECKING:  # it imports matplotlib
    from scalecurve.reporting.drawing.sheet import Drawing

SECTIONS, PLOTS = "scalecurve.sections", "scalecurve.plots"

QUESTIONS = {
    "scale": "How does it scale?",
    "bend": "Why does it bend?",
    "cost": "What does it cost?",
    "train": "What did training reach?",
    "predict": "What would other counts do?",
    "believe": "Can I believe it?",
    "more": "More",
}
"""What a report answers, in its order; every section belongs to one of them."""


@dataclass(frozen=True)
class Body:
    """What a section says beside its plots. Tables without rows are left out, but for those shown ``always``.

    ``methods`` explain how the numbers were obtained; they stand at the end of the report. ``title`` replaces that of
    the section.
    """

    tables: tuple[Table | None, ...] = ()
    always: tuple[Table, ...] = ()
    sentences: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    title: str | None = None


@dataclass(frozen=True)
class SectionSource:
    """A section by its name; sections stand in the report by ascending ``order``."""

    name: str
    title: str
    order: int
    body: Callable[[Findings], Body]
    question: str = "more"


@dataclass(frozen=True)
class PlotSource:
    """A plot by its name, which is that of its files too; plots stand in their section by ascending ``order``."""

    name: str
    section: str
    order: int
    draw: Callable[[Findings], Drawing | None]


BodyFunction = TypeVar("BodyFunction", bound=Callable[[Findings], Body])
DrawFunction = TypeVar("DrawFunction", bound="Callable[[Findings], Drawing | None]")
Source = TypeVar("Source", SectionSource, PlotSource)
_sections: dict[str, SectionSource] = {}
_plots: dict[str, PlotSource] = {}


def section(name: str, title: str, *, order: int, question: str = "more") -> Callable[[BodyFunction], BodyFunction]:
    """Register the function as a section of the report, under one of ``QUESTIONS``.

    Raises ValueError for another question.
    """
    if question not in QUESTIONS:
        raise ValueError(f"section {name!r}: no question {question!r} (questions: {', '.join(QUESTIONS)})")

    def register(body: BodyFunction) -> BodyFunction:
        _register("section", SectionSource(name, title, order, body, question), _sections)
        return body

    return register


def plot(name: str, *, section: str, order: int) -> Callable[[DrawFunction], DrawFunction]:
    """Register the function as a plot of a section."""

    def register(draw: DrawFunction) -> DrawFunction:
        _register("plot", PlotSource(name, section, order, draw), _plots)
        return draw

    return register


def all_sections() -> list[SectionSource]:
    """Every section in order."""
    importlib.import_module("scalecurve.reporting.sections")
    _load(SECTIONS)
    return sorted(_sections.values(), key=lambda source: (source.order, source.name))


def all_plots() -> list[PlotSource]:
    """Every plot in order; raises ValueError for a plot of a section that does not exist."""
    names = [source.name for source in all_sections()]
    package = importlib.import_module("scalecurve.reporting.plots")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    _load(PLOTS)
    for source in _plots.values():
        if source.section not in names:
            near = did_you_mean(source.section, names)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(
                f"plot {source.name!r}: no section {source.section!r}{hint} (sections: {', '.join(names)})"
            )
    return sorted(_plots.values(), key=lambda source: (source.order, source.name))


def _load(group: str) -> None:
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        entry.load()


def _register(kind: str, source: Source, registered: dict[str, Source]) -> None:
    if registered.setdefault(source.name, source) is not source:
        raise ValueError(f"{kind} {source.name!r} is already registered")
