"""Where the points of a report stand among published systems (entry point ``scalecurve.sections``)."""

from scalecurve.reporting.contributions import Contribution, contribute
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import Body, section
from scalecurve_corpus.comparable import own_points
from scalecurve_corpus.schema import Corpus
from scalecurve_corpus.standing import LEAST_POINTS, PublishedStanding, standings
from scalecurve_corpus.tables import comparable_table, standing_table, utilization_table
from scalecurve_corpus.utilization import UtilizationStanding, utilization_standings

_METHOD = (
    "Published systems: {sources}. A rate enters only where its log proves the unit; the interval of another system is "
    "a prediction interval over submitters, with the spread of all kinds of system as its prior."
)


def shipped() -> Corpus:
    """Open the corpus that ships; reading Parquet is imported when a report is written, not before."""
    from scalecurve_corpus.corpus_file import load_shipped

    return load_shipped()


def comparable_standings(analysis: Analysis) -> tuple[PublishedStanding, ...]:
    """Find the points with enough published systems beside them.

    Args:
        analysis: What the report computed from its bundles.

    Returns:
        Their standings, in the order of the curves.
    """
    points = own_points(analysis.curves, analysis.measured, include_unproved=analysis.include_unproved)
    return tuple(standing for standing in standings(points, shipped()) if not standing.refused)


def utilizations(analysis: Analysis) -> tuple[UtilizationStanding, ...]:
    """Find the points with enough published MFUs of about their size beside them; who published them is in the table.

    Args:
        analysis: What the report computed from its bundles.

    Returns:
        Their standings, in the order of the curves.
    """
    points = own_points(analysis.curves, analysis.measured, include_unproved=analysis.include_unproved)
    return tuple(each for each in utilization_standings(points, shipped()) if len(each.others) >= LEAST_POINTS)


class _Published(Contribution):
    def beside(self, analysis: Analysis) -> str:
        """Say how the largest comparable point stands; nothing where no point is comparable."""
        shown = analysis.once(comparable_standings)
        return max(shown, key=lambda standing: standing.own.workers).sentence if shown else ""


contribute(_Published())


@section("among-published", "Among published systems", order=18, question="scale")
def compose_published_section(analysis: Analysis) -> Body:
    """Compose the section: where each comparable point stands, and the systems beside it.

    Args:
        analysis: What the report computed from its bundles.

    Returns:
        Tables, and how they were made; empty where nothing is comparable.
    """
    shown, of_size = analysis.once(comparable_standings), analysis.once(utilizations)
    beside = (utilization_table(of_size),) if of_size else ()
    if not shown:
        return Body(beside)
    used = {each.point.source for standing in shown for each in standing.others}
    sources = [source for source in shipped().sources if source.name in used]
    method = _METHOD.format(sources=", ".join(f"{source.title} ({source.license})" for source in sources))
    return Body((standing_table(shown, sources), comparable_table(shown), *beside), methods=(method,))
