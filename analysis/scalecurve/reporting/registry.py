"""Sections and plots register themselves when their module is imported.

A plot is a function of the analysis that returns a drawing, or None where there is nothing to show::

    @plot("queue-time", section="time", order=30)
    def queue_time(analysis: Analysis) -> Drawing | None: ...

A module in ``scalecurve.reporting.plots`` needs no more than that. A feature names its modules in its manifest, in the
groups ``scalecurve.sections`` and ``scalecurve.plots``, and a package of its own by entry points of these groups.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from scalecurve.render.table import Table
from scalecurve.reporting.findings import Analysis
from scalecurve_api.registry import Registry

if TYPE_CHECKING:  # it imports matplotlib
    from scalecurve.reporting.drawing.sheet import Drawing

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
    """What a section says beside its plots. Tables without rows are omitted, except those shown ``always``.

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
    body: Callable[[Analysis], Body]
    question: str = "more"


@dataclass(frozen=True)
class PlotSource:
    """A plot by its name, which is that of its files too; plots stand in their section by ascending ``order``."""

    name: str
    section: str
    order: int
    draw: Callable[[Analysis], Drawing | None]


BodyFunction = TypeVar("BodyFunction", bound=Callable[[Analysis], Body])
DrawFunction = TypeVar("DrawFunction", bound="Callable[[Analysis], Drawing | None]")
Source = TypeVar("Source", SectionSource, PlotSource)
REPORT_SECTIONS: dict[str, SectionSource] = {}
PLOTS: dict[str, PlotSource] = {}
_MODULES_OF_SECTIONS: Registry[ModuleType] = Registry("scalecurve.sections", "module of sections", ModuleType, {})
_MODULES_OF_PLOTS: Registry[ModuleType] = Registry("scalecurve.plots", "module of plots", ModuleType, {})


def load_report_sections() -> None:
    """Import what registers the sections of features."""
    _MODULES_OF_SECTIONS.loadable()


def load_plots() -> None:
    """Import what registers plots."""
    name = "scalecurve.reporting.plots"
    for module in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
        importlib.import_module(module.name)
    _MODULES_OF_PLOTS.loadable()


def section(name: str, title: str, *, order: int, question: str = "more") -> Callable[[BodyFunction], BodyFunction]:
    """Register the function as a section of the report, under one of ``QUESTIONS``.

    Raises ValueError for another question.
    """
    if question not in QUESTIONS:
        raise ValueError(f"section {name!r}: no question {question!r} (questions: {', '.join(QUESTIONS)})")

    def register(body: BodyFunction) -> BodyFunction:
        _register("section", SectionSource(name, title, order, body, question), REPORT_SECTIONS)
        return body

    return register


def plot(name: str, *, section: str, order: int) -> Callable[[DrawFunction], DrawFunction]:
    """Register the function as a plot of a section."""

    def register(draw: DrawFunction) -> DrawFunction:
        _register("plot", PlotSource(name, section, order, draw), PLOTS)
        return draw

    return register


def _register(kind: str, source: Source, registered: dict[str, Source]) -> None:
    if registered.setdefault(source.name, source) is not source:
        raise ValueError(f"{kind} {source.name!r} is already registered")
