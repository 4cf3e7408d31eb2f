"""Checks of ``scalecurve gate --expect corpus:p25``: every point against a percentile of published systems."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import scaling
from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_corpus.acceptance import error_rates, refuses
from scalecurve_corpus.comparable import own_points
from scalecurve_corpus.corpus_file import load_shipped
from scalecurve_corpus.refused_systems import refused_systems
from scalecurve_corpus.schema import SAMPLES, Corpus, CorpusError
from scalecurve_corpus.standing import PublishedStanding, quantile, standings
from scalecurve_timelines.gate import CheckOutcome, GateCheck

_REFERENCE = re.compile(r"corpus:p(\d{1,2})")


def percentile_named(reference: str) -> float:
    """Read ``corpus:p25`` as the share 0.25.

    Args:
        reference: What ``--expect`` was given.

    Returns:
        The share.

    Raises:
        CorpusError: it is no percentile from p1 to p99.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None or int(match[1]) < 1:
        raise CorpusError("expected corpus:p1 to corpus:p99, such as corpus:p25")
    return int(match[1]) / 100


def checks_against(bundle: Bundle, corpus: Corpus, share: float) -> tuple[list[GateCheck], list[str]]:
    """Hold every point against a percentile of the comparable published systems.

    Args:
        bundle: The bundle to judge, without points that do not count.
        corpus: Published points.
        share: The percentile as a share, such as 0.25.

    Returns:
        A check for each point, undecided where too few systems are comparable; and the error rates of each number of
        repetitions.
    """
    measured = measure(bundle)
    repetitions = {(s.name, p.point.name): p for s in measured for p in s.points}
    found = standings(own_points(scaling([bundle]), measured), corpus)
    by_place = {(s.name, p.workers, p.point.nodes): p.point.name for s in scaling([bundle]).series for p in s.points}
    checks = []
    for standing in found:
        name = by_place[standing.own.series, standing.own.workers, standing.own.nodes]
        point = repetitions[standing.own.series, name]
        totals = point.samples if standing.unit != SAMPLES or not point.sequences else point.sequences
        rates = [each.total_samples / each.total_wall_s / standing.own.workers for each in totals]
        checks.append(_check(standing, rates, share))
    counts = {len(p.timed) for p in repetitions.values() if len(p.timed) > 1}
    judged = any(check.compares for check in checks)
    if not judged:
        return checks, []
    refused = [refused_systems(corpus, share, count) for count in sorted(counts)]
    return checks, [
        *(_spell_error_rates(count, corpus) for count in sorted(counts)),
        *(f"{each.sentence}." for each in refused if each),
    ]


def checks_of(bundle: Bundle, reference: str) -> tuple[list[GateCheck], list[str]]:
    """Hold a bundle against the corpus that ships (entry point ``scalecurve.expectations``).

    Raises:
        CorpusError: ``reference`` is none such as corpus:p25.
    """
    return checks_against(bundle, load_shipped(), percentile_named(reference))


def _spell_error_rates(repetitions: int, corpus: Corpus) -> str:
    try:
        return f"{error_rates(repetitions, corpus).sentence}."
    except ValueError as error:
        return f"Error rates are not known: {error}."


def _check(standing: PublishedStanding, rates: Sequence[float], share: float) -> GateCheck:
    own, workers = standing.own, standing.own.workers
    now = standing.rate.scaled(workers)
    if standing.refused:
        return GateCheck("published", CheckOutcome.UNDECIDED, standing.why_not, own.series, workers, now)
    threshold = quantile([each.per_device for each in standing.others], share)
    refused = refuses(rates, threshold)
    reference = Estimate(threshold * workers, None, None, 0.95, Method.NONE, 0)
    detail = (
        f"p{100 * share:g} of {len(standing.others)} published systems of {len(standing.submitters)} submitters, per "
        f"device {formatting.number(threshold)} {standing.unit}"
    )
    if refused is None:
        detail = f"one repetition does not predict the next; {detail}"
        return GateCheck("published", CheckOutcome.UNDECIDED, detail, own.series, workers, now, reference)
    outcome = CheckOutcome.FAILED if refused else CheckOutcome.PASSED
    ratio = now.scaled(1 / reference.value)
    return GateCheck("published", outcome, detail, own.series, workers, now, reference, ratio)
