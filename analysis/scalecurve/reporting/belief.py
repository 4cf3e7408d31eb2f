"""Can the numbers be believed? One word, and what it rests on, from what the bundles show and what they do not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.checks.environment import check_table
from scalecurve.checks.overhead import largest_in_words, overheads
from scalecurve.curves.doubts import doubtful_lines, provenance_lines
from scalecurve.curves.headline import count_machines
from scalecurve.curves.sockets import socket_lines
from scalecurve.render import formatting
from scalecurve.reporting.findings import Analysis
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import count

YES, WITH_CARE, NO = "Yes", "With care", "No"
ONE_SESSION = "Yes, for this session"
"""Another day or another machine was not measured: the spread between sessions is not in any interval."""
WIDE = 0.1
"""A half interval of this share of its value or more leaves open what a curve is read for."""


@dataclass(frozen=True)
class Belief:
    """``word`` is one of the four above; ``facts`` are its grounds in numbers, ``cautions`` what speaks against."""

    word: str
    facts: tuple[str, ...]
    cautions: tuple[str, ...]


def belief(analysis: Analysis) -> Belief:
    """NO for an invalid point or records that contradict; WITH_CARE for what was not shown, or measured elsewhere."""
    against, care = tuple(_objections(analysis)), tuple(_care(analysis))
    sound = ONE_SESSION if _fewest_sessions(analysis.bundles) <= 1 else YES
    word = NO if against else WITH_CARE if care else sound
    return Belief(word, tuple(_facts(analysis)), against + care)


def _facts(analysis: Analysis) -> Iterator[str]:
    trials = [trial for bundle in analysis.bundles for trial in bundle.trials]
    yield f"{sum(trial.good for trial in trials)} of {count(len(trials), 'trial')} valid"
    checks = check_table(analysis.bundles).rows
    if checks:
        yield f"each checked in {count(len({row[1] for row in checks}), 'way')}"
    yield _where(analysis.bundles)
    if width := _widest(analysis):
        yield f"known to ±{formatting.percent(width)} at the largest worker count"
    if overhead := largest_in_words(overheads(analysis.measured)):
        yield overhead
    points = [point for _, point in analysis.scaling.named_points() if point.measured]
    if unproved := sum(bool(point.doubts) for point in points):
        yield f"{unproved} of {count(len(points), 'point')} not proved"


def _objections(analysis: Analysis) -> Iterator[str]:
    trials = [trial for bundle in analysis.bundles for trial in bundle.trials]
    if any(trial.record for trial in trials) and not any(trial.good for trial in trials):
        yield "no trial is valid"
    yield from doubtful_lines(analysis.scaling.named_points())
    for bundle in analysis.bundles:
        yield from (f"{_label(analysis, bundle)}{contradiction}" for contradiction in bundle.contradictions)
    wrong = dict.fromkeys(p.peak_refused for _, p in analysis.scaling.named_points() if p.peak_refused)
    yield from (f"MFU is not shown: {why}" for why in wrong)
    failed = [str(row[1]) for row in check_table(analysis.bundles).rows if row[3]]
    if failed:
        yield f"checks failed in trials that are shown: {', '.join(dict.fromkeys(failed))}"


def _care(analysis: Analysis) -> Iterator[str]:
    yield from socket_lines(analysis.bundles)
    yield from provenance_lines(analysis.scaling.named_points())
    unmade = [str(row[1]) for row in check_table(analysis.bundles).rows if row[4]]
    if unmade:
        yield f"could not be checked in some trials: {', '.join(dict.fromkeys(unmade))}"
    if analysis.scaling.lost and not analysis.missing:
        yield analysis.scaling.exclusions
    if waiting := analysis.scaling.unfinished():
        yield f"{count(waiting, 'trial')} not finished"
    if problems := {*analysis.scaling.problems, *analysis.step_summaries.problems}:
        yield f"{count(len(problems), 'file')} could not be used"
    if analysis.differences:
        names = dict.fromkeys(difference.what for difference in analysis.differences)
        yield f"points of one curve differ in {', '.join(names)}"
    if (width := _widest(analysis)) and width > WIDE:
        yield "intervals are wide: repeat more often, or on a quieter machine"
    unknown = [name for name, estimate in _largest(analysis) if estimate.half_width is None]
    if unknown:
        yield f"run-to-run variation not known: {', '.join(unknown)}"
    elif any(estimate.within_run_only for _, estimate in _largest(analysis)):
        yield "single repetitions: run-to-run variation not known"


def _largest(analysis: Analysis) -> list[tuple[str, Estimate]]:
    """The figure that matters of each curve: efficiency at its largest count, or throughput where there is but one."""
    ends = []
    for series in analysis.curves.series:
        last = max(series.measured, key=lambda point: point.workers, default=None)
        if last is None or last.throughput is None:
            continue
        compared = last.efficiency is not None and last.workers != series.baseline
        ends.append((series.name, last.efficiency if compared and last.efficiency else last.throughput))
    return ends


def _widest(analysis: Analysis) -> float | None:
    """The widest half interval, relative to its value."""
    widths = [e.half_width / e.value for _, e in _largest(analysis) if e.half_width is not None and e.value > 0]
    return max(widths, default=None)


def _where(bundles: Sequence[Bundle]) -> str:
    """Of the experiment with the most sessions and machines: each has its own."""
    each = _good_records(bundles)
    if any(each) and all(record.imported for records in each for record in records):
        return "measured elsewhere"
    machines = max(map(count_machines, each), default=1)
    sessions = max(map(_sessions, each), default=1)
    where = "one machine" if machines == 1 else f"{machines} machines"
    return f"{'one session' if sessions <= 1 else f'{sessions} sessions'} on {where}"


def _fewest_sessions(bundles: Sequence[Bundle]) -> int:
    return min((_sessions(records) for records in _good_records(bundles) if records), default=0)


def _sessions(records: Sequence[TrialRecord]) -> int:
    return len({record.trial.session for record in records})


def _good_records(bundles: Sequence[Bundle]) -> list[list[TrialRecord]]:
    return [[trial.record for trial in bundle.trials if trial.good and trial.record] for bundle in bundles]


def _label(analysis: Analysis, bundle: Bundle) -> str:
    return f"{bundle.label}: " if len(analysis.bundles) > 1 else ""
