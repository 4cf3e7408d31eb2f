"""A report composed of every registered section and plot."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from scalecurve.reporting.answer import answer
from scalecurve.reporting.catalog import all_plots, all_sections
from scalecurve.reporting.content import Content, Plot, Section
from scalecurve.reporting.findings import WORKERS, Findings
from scalecurve.reporting.headlines import headlines, subjects, warnings
from scalecurve.reporting.methods import methods

METHODS = "methods"


def compose(findings: Findings, draw: bool = True, png: bool = True, views: bool = True) -> Content:
    """Put the findings into sections; without ``draw``, ``png`` and ``views`` the time that plots take is saved.

    ``views`` are a page's further forms of each figure: for a phone, and with linear axes.
    """
    plots, curve, over = _plots(findings, png, views) if draw else ({}, None, "")
    sections: list[Section] = []
    explained: list[str] = []
    for source in all_sections():
        body = source.body(findings)
        tables = (*(table for table in body.tables if table is not None and table.rows), *body.always)
        explained += body.methods
        drawn, title = plots.get(source.name, ()), body.title or source.title
        sections.append(Section(source.name, title, drawn, tables, body.sentences, source.question))
    sentences = (*methods(findings), *explained)
    sections.append(Section(METHODS, "How the numbers were obtained", sentences=sentences, question="believe"))
    return Content(
        title=", ".join(bundle.label for bundle in findings.bundles),
        subjects=subjects(findings.bundles),
        headlines=tuple(headlines(findings)),
        warnings=tuple(warnings(findings)),
        sections=tuple(shown for shown in sections if shown.plots or shown.tables or shown.sentences),
        answer=answer(findings),
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


def _plots(findings: Findings, png: bool, views: bool) -> tuple[dict[str, tuple[Plot, ...]], Plot | None, str]:
    """The plots of each section, that of the first screen, and the axis that it is over, "" for workers."""
    from scalecurve.reporting.drawing.render import plot_settings, render_all
    from scalecurve.reporting.first_curve import first_curve, x_axis

    rendered: dict[str, tuple[Plot, ...]] = defaultdict(tuple)
    with plot_settings():
        for source in all_plots():
            if plot := render_all(source.name, partial(source.draw, findings), png, views):
                rendered[source.section] += (plot,)
        curve = render_all("curve", partial(first_curve, findings), False, True) if views else None
    over = x_axis(findings) if curve else ""
    return rendered, curve, "" if over == WORKERS else over
