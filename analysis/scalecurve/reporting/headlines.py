"""The sentences at the top of a report: a headline for every curve, and what must be known before trusting it."""

from collections.abc import Iterator, Sequence

from scalecurve.checks.environment import check_table
from scalecurve.curves.cost import SeriesCost
from scalecurve.curves.results import SeriesResult
from scalecurve.render import formatting
from scalecurve.render.labels import shortened
from scalecurve.reporting.findings import Findings
from scalecurve.training_results.outcome import PointTraining
from scalecurve_api.text import count


def headlines(findings: Findings) -> Iterator[str]:
    """One for every curve and every all-reduce."""
    several = len(findings.bundles) > 1
    best_count = {
        (c.series.bundle, c.series.name): _best(c) for c in findings.costs.series if len(c.series.measured) > 1
    }
    short, _ = shortened(series.name for series in findings.curves.series)
    trained = {(p.bundle, p.series): p for p in sorted(findings.training.points, key=lambda p: p.point.workers)}
    for series in findings.curves.series:
        key = series.bundle, series.name
        sentence = short[series.name] + series.headline.removeprefix(series.name)
        sentence = f"{series.bundle}, {sentence}" if several else sentence
        yield sentence + best_count.get(key, "") + (_accuracy(trained[key], series) if key in trained else "")
    for point in findings.allreduce.points:
        best = max(point.sizes, key=lambda size: size.busbw.median)
        where = f"{point.bundle}, " if several else ""
        yield (
            f"{where}all-reduce over {count(point.point.workers, 'worker')} ({point.point.layout}): "
            f"{formatting.number(best.busbw.median)} GB/s of bus bandwidth at {formatting.size(best.bytes)}"
        )


def warnings(findings: Findings) -> Iterator[str]:
    """Unusable files, excluded and unfinished trials, differences, doubtful checks, findings in step times."""
    problems = [*findings.scaling.problems, *findings.digests.problems]
    if problems:
        yield f"{count(len(problems), 'file')} could not be used; the rest is shown."
    if findings.scaling.excluded:
        yield f"{count(len(findings.scaling.excluded), 'trial')} ended Invalid, Failed or Cancelled and are excluded."
    if findings.scaling.unfinished():
        yield f"{count(findings.scaling.unfinished(), 'trial')} unfinished; their points show ?."
    if findings.differences:
        names = ", ".join(dict.fromkeys(difference.what for difference in findings.differences))
        yield f"Points of the same curve differ in: {names}."
    doubtful = [str(row[1]) for row in check_table(findings.bundles).rows if row[3]]
    if doubtful:
        yield f"Checks failed in trials that are shown: {', '.join(dict.fromkeys(doubtful))}."
    if findings.diagnosis.findings:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in findings.diagnosis.findings))
        yield f"Found in step times: {kinds}."


def _accuracy(trained: PointTraining, series: SeriesResult) -> str:
    """The accuracy of the largest worker count that was evaluated."""
    text = f"; accuracy {formatting.percent_interval(trained.final)} after {count(trained.epochs, 'epoch')}"
    largest = max((p.workers for p in series.points if p.measured), default=None)
    return text if trained.point.workers == largest else f"{text} on {count(trained.point.workers, 'worker')}"


def _best(costs: SeriesCost) -> str:
    """The cheapest and the fastest worker count, and which others noise hides."""
    if costs.cheapest is None or costs.fastest is None:
        return ""
    cheapest = f"{count(costs.cheapest, 'worker')}{_as_good(costs.as_cheap)}"
    fastest = f"{count(costs.fastest, 'worker')}{_as_good(costs.as_fast)}"
    if cheapest == fastest:
        return f"; cheapest and fastest at {cheapest}"
    return f"; cheapest at {cheapest}, fastest at {fastest}"


def _as_good(counts: Sequence[int]) -> str:
    return f" (tied with {', '.join(map(str, counts))})" if counts else ""
