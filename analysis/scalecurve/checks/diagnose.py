"""Problems of a measurement, in numbers, and what to do about them.

Looked for in every Succeeded trial: drift, steps of two kinds, a slow rank, waiting for stragglers, too short a
warm-up, cores shared with other processes; and over the trials of a point: repetitions that disagree more than their
windows do.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import truediv

from scalecurve.bundle.measurement import MeasuredPoint, measure
from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import UnusableFile
from scalecurve.bundle.step_summary import StepSummaries, StepSummary, summarize_steps
from scalecurve.bundle.trial import Trial
from scalecurve.checks.overhead import NOTABLE, mean_of, shares_of
from scalecurve.render import formatting
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Column, Table, experiment_column, one_line, table_of
from scalecurve_api.text import count

DISAGREEMENT = 0.05
"""Repetitions whose throughputs spread by more than this (relative, largest to smallest) are reported."""
SHARED_CORES = 0.1  # from this share of a worker's cores on, what other processes take is reported


@dataclass(frozen=True)
class Anomaly:
    """One thing noticed at a point, in ``trials`` of its ``of`` Succeeded ones: evidence in numbers, and advice.

    ``severity`` is the relative effect on step time that the evidence shows, None where it shows none; findings are
    sorted by it.
    """

    bundle: str
    kind: str
    series: str
    workers: int
    trials: tuple[str, ...]
    of: int
    severity: float | None
    evidence: str
    advice: str


@dataclass(frozen=True)
class Diagnosis(OneTable):
    """All findings, the most severe first, unreadable tables, and the numbers of excluded trials by outcome."""

    findings: tuple[Anomaly, ...]
    trials: int
    rows: int
    problems: tuple[tuple[str, UnusableFile], ...]
    excluded: tuple[tuple[str, int], ...] = ()

    def table(self) -> Table:
        notes = [f"Analyzed {self.rows:,} step rows of {self.trials:,} trials."]
        if self.excluded:
            ends = ", ".join(f"{count} {end}" for end, count in self.excluded)
            notes.append(f"Excluded from the curves and not analyzed: {ends}. See each trial's message.")
        elif not self.trials:
            notes.append("Nothing to analyze: no trial has ended, or no record is readable.")
        return table_of(
            "diagnosis",
            "Diagnosis",
            self.findings,
            (
                (experiment_column(f.bundle for f in self.findings), lambda f: f.bundle),
                (Column("series", "Series"), lambda f: f.series),
                (Column("workers", "Workers", "count"), lambda f: f.workers),
                (Column("kind", "Finding"), lambda f: f.kind),
                (Column("trials", "Trials"), lambda f: f"{len(f.trials)} of {f.of}"),
                (Column("effect", "Effect", "percent"), lambda f: f.severity),
                (Column("evidence", "Evidence"), lambda f: f.evidence),
                (Column("advice", "Action"), lambda f: f.advice),
            ),
            [*notes, *(f"{label}: {problem}" for label, problem in self.problems)],
        )

    def paragraphs(self, width: int = 100) -> str:
        """For people: a paragraph a finding, the most severe first, then the notes; lines of ``width`` characters."""
        several = len({finding.bundle for finding in self.findings}) > 1
        lines = [] if self.findings else ["Nothing unusual in the step times."]
        for f in self.findings:
            where = f"{f.bundle}, {f.series}" if several else f.series
            effect = f"{formatting.percent(f.severity)} of a step, " if f.severity is not None else ""
            at = f"{where} at {count(f.workers, 'worker')}"
            heading = one_line(f"{at}: {f.kind} ({effect}{len(f.trials)} of {count(f.of, 'trial')})")
            lines += textwrap.wrap(heading, width, subsequent_indent="  ", break_long_words=False)
            lines += textwrap.wrap(one_line(f.evidence), width, initial_indent="  ", subsequent_indent="  ")
            lines += textwrap.wrap(one_line(f.advice), width, initial_indent="  → ", subsequent_indent="    ")
            lines.append("")
        for note in self.table().notes:
            lines += textwrap.wrap(f"note: {one_line(note)}", width, subsequent_indent="  ", break_long_words=False)
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Noticed:
    kind: str
    trial: str
    severity: float | None
    evidence: str
    advice: str


def diagnose(bundles: Sequence[Bundle]) -> Diagnosis:
    """Read every step table and list the anomalies.

    Args:
        bundles: What `open_bundles` returned; their labels differ.

    Returns:
        What was found, by kind, with the trials concerned, its effect and what to do.
    """
    return diagnose_from(bundles, summarize_steps(bundles))


def diagnose_from(bundles: Sequence[Bundle], summaries: StepSummaries) -> Diagnosis:
    """The same, from existing summaries."""
    every = [(bundle.label, series.name, p) for bundle in bundles for series in measure(bundle) for p in series.points]
    findings = [finding for place in every for finding in _point_findings(*place, summaries)]
    findings.sort(key=lambda f: (-_weight(f.severity), f.bundle, f.series, f.workers, f.kind))
    return Diagnosis(tuple(findings), len(summaries.of), summaries.rows, summaries.problems, _count_exclusions(bundles))


def _count_exclusions(bundles: Sequence[Bundle]) -> tuple[tuple[str, int], ...]:
    records = [trial.record for bundle in bundles for trial in bundle.trials if trial.record and not trial.good]
    ends = Counter(f"{record.phase.value}: {record.reason or 'no reason stated'}" for record in records)
    return tuple(sorted(ends.items(), key=lambda pair: (-pair[1], pair[0])))


def _point_findings(bundle: str, series: str, point: MeasuredPoint, summaries: StepSummaries) -> Iterator[Anomaly]:
    """Findings of one point; the same finding in several trials is reported once, with the worst as evidence."""
    noticed: dict[str, list[_Noticed]] = {}
    trials = [trial for trial in point.trials if trial.good]
    for trial in trials:
        summary = summaries.of.get((bundle, trial.name))
        noticed_here = [look(trial) for look in _LOOKS_AT_RECORDS]
        noticed_here += [look(trial, summary) for look in _LOOKS_AT_STEPS] if summary else []
        for notice in noticed_here:
            if notice:
                noticed.setdefault(notice.kind, []).append(notice)
    if disagreement := _repetitions(point):
        noticed[disagreement.kind] = [disagreement]
    if overhead := _overhead(point):
        noticed[overhead.kind] = [overhead]
    for kind, several in noticed.items():
        worst = max(several, key=lambda n: (_weight(n.severity), n.trial))
        names = tuple(n.trial for n in several if n.trial)
        names = names or tuple(trial.name for trial in trials)
        told = (worst.severity, worst.evidence, worst.advice)
        yield Anomaly(bundle, kind, series, point.point.workers, names, len(trials), *told)


def _weight(severity: float | None) -> float:
    """Sort key of findings, rounded so that floating-point noise cannot change the order."""
    return 0.0 if severity is None else round(severity, 6)


def _never_steady(trial: Trial) -> _Noticed | None:
    warmup = trial.record.warmup if trial.record else None
    if warmup is None or warmup.stable:
        return None
    evidence = f"step time was still unstable after {warmup.steps} warm-up steps when timing began"
    advice = "raise measure.maxWarmupSteps, or find what disturbs the machine"
    return _Noticed("never stable", trial.name, None, evidence, advice)


def _core_sharing(trial: Trial) -> _Noticed | None:
    share = max((load for load in (trial.record.foreign_load if trial.record else []) if load), default=0.0)
    evidence = f"other processes took up to {formatting.percent(share, 0)} of a worker's cores"
    advice = "stop them, or reserve cores for the trial; measure.maxForeignLoad sets when such a trial is Invalid"
    return _Noticed("shared cores", trial.name, None, evidence, advice) if share >= SHARED_CORES else None


def _stolen_cores(trial: Trial) -> _Noticed | None:
    share = max((load for load in (trial.record.stolen_load if trial.record else []) if load), default=0.0)
    evidence = f"the hypervisor gave up to {formatting.percent(share, 0)} of a worker's cores to other guests"
    advice = "run on a host with dedicated cores, or at another time; nothing on this machine helps"
    return _Noticed("stolen cores", trial.name, None, evidence, advice) if share >= SHARED_CORES else None


def _drift(trial: Trial, summary: StepSummary) -> _Noticed | None:
    drift = summary.drift
    if drift is None or not drift.drifting:
        return None
    does, advice = "falls", "still warming up: raise measure.warmupSteps"
    if drift.relative > 0:
        does, advice = "rises", "check clocks, temperature and memory growth; use longer windows"
    evidence = (
        f"step time {does} by {formatting.percent(abs(drift.relative))} from the first to the last of "
        f"{summary.steps} timed steps (p {_p(drift.p_value)})"
    )
    return _Noticed("drift", trial.name, abs(drift.relative), evidence, advice)


def _modes(trial: Trial, summary: StepSummary) -> _Noticed | None:
    modes = summary.modes
    if modes is None or not modes.bimodal or modes.fast_mode is None or modes.slow_mode is None:
        return None
    evidence = (
        f"steps come in two modes: {formatting.seconds(modes.fast_mode)} and, for "
        f"{formatting.percent(modes.slow_share, 0)} of them, {formatting.seconds(modes.slow_mode)}"
    )
    advice = "look for periodic work: data loading, garbage collection, logging, clock changes, a neighbor"
    effect = modes.slow_share * (modes.slow_mode / modes.fast_mode - 1)
    return _Noticed("bimodal steps", trial.name, effect, evidence, advice)


def _warm_up(trial: Trial, summary: StepSummary) -> _Noticed | None:
    warm_up = summary.warm_up
    if warm_up is None or not warm_up.too_short:
        return None
    done = trial.record.warmup.steps if trial.record and trial.record.warmup else None
    evidence = (
        f"the first {warm_up.discard} timed steps are {formatting.percent(warm_up.excess)} slower than the others"
        + (f", after {done} warm-up steps" if done is not None else "")
        + f"; this inflates the mean step by {formatting.percent(warm_up.bias)}"
    )
    advice = f"set measure.warmupSteps to {(done or trial.spec.measure.warmup_steps) + warm_up.discard} or more"
    return _Noticed("warm-up too short", trial.name, warm_up.bias, evidence, advice)


def _slow_rank(trial: Trial, summary: StepSummary) -> _Noticed | None:
    slow = summary.slow_ranks
    if slow is None or not slow.slow:
        return None
    rank = slow.ranks[0]
    where = ""
    if trial.record is not None and rank < len(trial.record.topology):
        topology = trial.record.topology[rank]
        where = f" ({topology.device_name}, {topology.device}, on {topology.node or topology.host})"
    windows = "steps without all-reduce" if summary.own_medians is not None else "timed steps"
    evidence = (
        f"rank {rank}{where} takes {formatting.percent(slow.excess[rank])} longer than the other ranks (median of the "
        f"{windows}) and is the slowest in {formatting.percent(summary.slowest_share[rank], 0)} of the timed steps"
        + (f"; also slow: {', '.join(map(str, slow.ranks[1:9]))}" if len(slow.ranks) > 1 else "")
    )
    advice = "every rank waits for it: compare its clocks, temperature, cores and neighbors; replace or exclude it"
    return _Noticed("slow rank", trial.name, slow.excess[rank], evidence, advice)


def _stragglers(trial: Trial, summary: StepSummary) -> _Noticed | None:
    stragglers = summary.stragglers
    if stragglers is None or not stragglers.straggling:
        return None
    if summary.slow_ranks is not None and summary.slow_ranks.slow:
        return None  # one slow rank is the whole story
    evidence = (
        f"{formatting.percent(stragglers.cost)} of the time is spent waiting for the slowest rank, a different one "
        f"each time; in {formatting.percent(stragglers.share)} of the steps a rank is more than 10 % behind the median"
    )
    advice = "uneven work or interrupted ranks: check data loading, core pinning, and other processes on the nodes"
    return _Noticed("stragglers", trial.name, stragglers.cost, evidence, advice)


_LOOKS_AT_RECORDS: tuple[Callable[[Trial], _Noticed | None], ...] = (_never_steady, _core_sharing, _stolen_cores)
_LOOKS_AT_STEPS: tuple[Callable[[Trial, StepSummary], _Noticed | None], ...] = (
    *(_drift, _modes, _warm_up, _slow_rank, _stragglers),
)


def _repetitions(point: MeasuredPoint) -> _Noticed | None:
    """Repetitions that differ by more than ``DISAGREEMENT`` and more than their windows explain."""
    if len(point.samples) < 2:
        return None
    rates = [total.total_samples / total.total_wall_s for total in point.samples]
    spread = _spread(rates)
    within = max(_spread(list(map(truediv, total.samples, total.wall_s))) for total in point.samples)
    if spread < DISAGREEMENT or spread < 2 * within:
        return None
    spelled = ", ".join(formatting.number(rate) for rate in rates)
    evidence = f"repetitions reach {spelled} samples/s, a spread of {formatting.percent(spread)}"
    if within > 0:
        evidence += f", while windows within a run agree to {formatting.percent(within)}"
    advice = "something changes between runs (placement, clocks, neighbors): fix it, or raise measure.repetitions"
    return _Noticed("repetitions disagree", "", spread, evidence, advice)


def _overhead(point: MeasuredPoint) -> _Noticed | None:
    """Steps that are longer for being measured, by more than ``NOTABLE`` and more than their trials differ."""
    shares = shares_of(point)
    share = mean_of(shares) if shares else None
    if share is None or share.low is None or share.low <= NOTABLE:
        return None
    evidence = f"instrumented steps take {formatting.interval(share, as_percent=True)} longer than bare ones"
    advice = "the point's numbers are too slow by that: make steps longer (a larger batch), or leave cores idle"
    return _Noticed("overhead", "", share.value, evidence, advice)


def _spread(rates: Sequence[float]) -> float:
    return max(rates) / min(rates) - 1


def _p(value: float) -> str:
    return "below 1e-9" if value < 1e-9 else f"{value:.1e}" if math.isfinite(value) else "unknown"
