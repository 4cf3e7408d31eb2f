"""The sentences at the top of a report: what was measured, a headline for every curve, and what to know of both."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from scalecurve.bundle.open import Bundle
from scalecurve.checks.environment import check_table, environment
from scalecurve.curves.cost import SeriesCost
from scalecurve.curves.doubts import first_lines
from scalecurve.curves.sockets import socket_lines
from scalecurve.render.labels import shortened
from scalecurve.reporting.contributions import contributions
from scalecurve.reporting.findings import Analysis
from scalecurve_api.text import count

_SAID = ("origin", "model", "framework", "program", "strategy", "precision", "data", "collective library", "device")
_MOST = 3
_LAST_NS = 253_402_300_799 * 10**9  # the end of the year 9999: a clock beyond it was not set


def subjects(bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """A line for each bundle with a Succeeded trial, with the experiment's name if there are several."""
    lines = [(bundle.label, _line(bundle)) for bundle in bundles]
    return tuple(f"{label}: {line}" if len(bundles) > 1 else line for label, line in lines if line)


def _line(bundle: Bundle) -> str:
    values = {fact.what: [value for value, _ in fact.values] for fact in environment([bundle])}
    named = [_several(values[what]) + (" data" if what == "data" else "") for what in _SAID if what in values]
    good = sum(trial.good for trial in bundle.trials)
    if not good:
        return ""
    return f"{', '.join(named)}; {good} of {count(len(bundle.trials), 'trial')} valid{_when(bundle)}"


def _several(values: Sequence[str]) -> str:
    more = f" and {len(values) - _MOST} more" if len(values) > _MOST else ""
    return " / ".join(values[:_MOST]) + more


def _when(bundle: Bundle) -> str:
    records = [trial.record for trial in bundle.trials if trial.good and trial.record is not None]
    times = [step.at_ns for record in records for step in record.timeline if 0 < step.at_ns < _LAST_NS]
    if not times:
        return ""
    first, last = (datetime.fromtimestamp(at // 10**9, UTC) for at in (min(times), max(times)))
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"; measured {first:%Y-%m-%d %H:%M} to {until} UTC"


def headlines(analysis: Analysis) -> Iterator[str]:
    """One for every curve, and those of features."""
    several = len(analysis.bundles) > 1
    compared = [costs for costs in analysis.costs.series if len(costs.series.measured) > 1]
    best_count = {(costs.series.bundle, costs.series.name): _best(costs) for costs in compared}
    short, _ = shortened(series.name for series in analysis.curves.series)
    from_features = tuple(contributions())
    for series in analysis.curves.series:
        key = series.bundle, series.name
        sentence = short[series.name] + series.headline.removeprefix(series.name)
        sentence = f"{series.bundle}, {sentence}" if several else sentence
        yield sentence + best_count.get(key, "") + "".join(each.in_headline(analysis, series) for each in from_features)
    for each in from_features:
        yield from each.headlines(analysis)


def warnings(analysis: Analysis) -> Iterator[str]:
    """What does not count, contradictions, unusable files, excluded trials, differences, checks, odd step times."""
    yield from first_lines(analysis.scaling.named_points())
    yield from (f"{line}." for line in socket_lines(analysis.bundles))
    for bundle in analysis.bundles:
        label = f"{bundle.label}: " if len(analysis.bundles) > 1 else ""
        yield from (f"{label}{contradiction}." for contradiction in bundle.contradictions)
    if problems := {*analysis.scaling.problems, *analysis.step_summaries.problems}:
        yield f"{count(len(problems), 'file')} could not be used; the rest is shown."
    yield from map(str, analysis.missing)
    if exclusions := analysis.scaling.exclusions:
        yield f"{exclusions}."
    if analysis.scaling.unfinished():
        yield f"{count(analysis.scaling.unfinished(), 'trial')} unfinished; their points show ?."
    if analysis.differences:
        names = ", ".join(dict.fromkeys(difference.what for difference in analysis.differences))
        yield f"Points of the same curve differ in: {names}."
    checks = check_table(analysis.bundles).rows
    if doubtful := [str(row[1]) for row in checks if row[3]]:
        yield f"Checks failed in trials that are shown: {', '.join(dict.fromkeys(doubtful))}."
    if unmade := dict.fromkeys(str(row[1]) for row in checks if row[4]):
        kinds = count(len({row[1] for row in checks}), "check")
        yield f"{len(unmade)} of {kinds} could not be made in some trials: {', '.join(unmade)} (see Environment)."
    if analysis.diagnosis.findings:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in analysis.diagnosis.findings))
        yield f"Found in step times: {kinds}."


def _best(costs: SeriesCost) -> str:
    """The cheapest and the fastest worker count, and which others noise hides."""
    if costs.cheapest is None or costs.fastest is None:
        return ""
    cheapest = f"{count(costs.cheapest, 'worker')}{_spell_ties(costs.as_cheap)}"
    fastest = f"{count(costs.fastest, 'worker')}{_spell_ties(costs.as_fast)}"
    if cheapest == fastest:
        return f"; cheapest and fastest at {cheapest}"
    return f"; cheapest at {cheapest}, fastest at {fastest}"


def _spell_ties(counts: Sequence[int]) -> str:
    return f" (tied with {', '.join(map(str, counts))})" if counts else ""
