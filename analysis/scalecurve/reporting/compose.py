"""A report composed of every registered section and plot."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from scalecurve.reporting import sections as _core  # noqa: F401  # it registers the core's sections
from scalecurve.reporting.answer import answer
from scalecurve.reporting.content import Content, Plot, Section
from scalecurve.reporting.findings import WORKERS, Analysis
from scalecurve.reporting.headlines import headlines, subjects, warnings
from scalecurve.reporting.methods import methods
from scalecurve.reporting.registry import (
    PLOTS,
    REPORT_SECTIONS,
    PlotSource,
    SectionSource,
    load_plots,
    load_report_sections,
)
from scalecurve_api.text import did_you_mean


def report_sections() -> list[SectionSource]:
    """Every section in order."""
    load_report_sections()
    return sorted(REPORT_SECTIONS.values(), key=lambda source: (source.order, source.name))


def all_plots() -> list[PlotSource]:
    """Every plot in order; raises ValueError for a plot of a section that does not exist."""
    names = [source.name for source in report_sections()]
    load_plots()
    for source in PLOTS.values():
        if source.section not in names:
            near = did_you_mean(source.section, names)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(
                f"plot {source.name!r}: no section {source.section!r}{hint} (sections: {', '.join(names)})"
            )
    return sorted(PLOTS.values(), key=lambda source: (source.order, source.name))


METHODS = "methods"


def compose(analysis: Analysis, draw: bool = True, png: bool = True, views: bool = True) -> Content:
    """Put the analysis into sections; without ``draw``, ``png`` and ``views`` the time that plots take is saved.

    ``views`` are a page's further forms of each figure: for a phone, and with linear axes.
    """
    plots, curve, over = _plots(analysis, png, views) if draw else ({}, None, "")
    sections: list[Section] = []
    explained: list[str] = []
    for source in report_sections():
        body = source.body(analysis)
        tables = (*(table for table in body.tables if table is not None and table.rows), *body.always)
        explained += body.methods
        drawn, title = plots.get(source.name, ()), body.title or source.title
        sections.append(Section(source.name, title, drawn, tables, body.sentences, source.question))
    sentences = (*methods(analysis), *explained)
    sections.append(Section(METHODS, "How the numbers were obtained", sentences=sentences, question="believe"))
    said = answer(analysis)
    return Content(
        title=", ".join(bundle.label for bundle in analysis.bundles),
        subjects=subjects(analysis.bundles),
        headlines=(*said.winners, *headlines(analysis)),
        warnings=tuple(warnings(analysis)),
        sections=tuple(shown for shown in sections if shown.plots or shown.tables or shown.sentences),
        answer=said,
        curve=curve or _first_of_training(sections),
        over=over,
    )


def _first_of_training(sections: Sequence[Section]) -> Plot | None:
    """What takes the curve's place where nothing scales."""
    plots = (plot for section in sections if section.question == "train" for plot in section.plots)
    first = next(plots, None)
    if first is None:
        return None
    small = next((view.svg for view in first.views if view.kind == "phone"), first.svg)
    return replace(first, name="curve", svg=small, views=())


def _plots(analysis: Analysis, png: bool, views: bool) -> tuple[dict[str, tuple[Plot, ...]], Plot | None, str]:
    """The plots of each section, that of the first screen, and the axis that it is over, "" for workers."""
    from scalecurve.reporting.drawing.render import plot_settings, render_all
    from scalecurve.reporting.first_curve import first_curve, x_axis

    rendered: dict[str, tuple[Plot, ...]] = defaultdict(tuple)
    with plot_settings():
        for source in all_plots():
            if plot := render_all(source.name, partial(source.draw, analysis), png, views):
                rendered[source.section] += (plot,)
        curve = render_all("curve", partial(first_curve, analysis), False, True) if views else None
    over = x_axis(analysis) if curve else ""
    return rendered, curve, "" if over == WORKERS else over
