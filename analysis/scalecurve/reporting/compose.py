"""A report composed of every registered section and plot."""

from collections import defaultdict

from scalecurve.reporting.content import Content, Plot, Section
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.headlines import headlines, warnings
from scalecurve.reporting.methods import methods
from scalecurve.reporting.registry import all_plots, all_sections
from scalecurve.reporting.subject import subjects

METHODS = "methods"


def compose(findings: Findings, draw: bool = True, png: bool = True) -> Content:
    """Put the findings into sections; without ``draw`` and ``png`` the time that plots take is saved."""
    plots = _plots(findings, png) if draw else {}
    sections: list[Section] = []
    explained: list[str] = []
    for source in all_sections():
        body = source.body(findings)
        tables = (*(table for table in body.tables if table is not None and table.rows), *body.always)
        explained += body.methods
        sections.append(Section(source.name, source.title, plots.get(source.name, ()), tables, body.sentences))
    sections.append(Section(METHODS, "How the numbers were obtained", sentences=(*methods(findings), *explained)))
    return Content(
        title=", ".join(bundle.label for bundle in findings.bundles),
        subjects=subjects(findings.bundles),
        headlines=tuple(headlines(findings)),
        warnings=tuple(warnings(findings)),
        sections=tuple(shown for shown in sections if shown.plots or shown.tables or shown.sentences),
    )


def _plots(findings: Findings, png: bool) -> dict[str, tuple[Plot, ...]]:
    from scalecurve.reporting.drawing.render import plot_settings, render

    rendered: dict[str, tuple[Plot, ...]] = defaultdict(tuple)
    with plot_settings():
        for source in all_plots():
            drawing = source.draw(findings)
            if drawing is not None:
                rendered[source.section] += (render(source.name, drawing, png),)
    return rendered
