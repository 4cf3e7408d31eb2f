"""What is wrong with a measurement, in numbers, and what to do about it.

Looked for in every Succeeded trial: drift, steps of two kinds, a slow rank, waiting for stragglers, too short a
warm-up, cores shared with other processes; and over the trials of a point: repetitions that disagree more than their
windows do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scalecurve.bundle.measurement import MeasuredPoint, measure
from scalecurve.bundle.open import Bundle, Trial
from scalecurve.bundle.problem import UnusableFile
from scalecurve.bundle.step_summary import Digests, StepDigest, digest_all
from scalecurve.render import formatting as spelling
from scalecurve.render.table import Column, Table

DISAGREEMENT = 0.05
"""Repetitions whose throughputs spread by more than this (relative, largest to smallest) are reported."""
SHARED_CORES = 0.1
"""From this share of a worker's cores on, what other processes take is reported."""


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
class Diagnosis:
    """All findings, the gravest first, the tables that could not be read, and how many trials ended as what else."""

    findings: tuple[Anomaly, ...]
    trials: int
    rows: int
    problems: tuple[tuple[str, UnusableFile], ...]
    left_out: tuple[tuple[str, int], ...] = ()

    def table(self) -> Table:
        """One row a finding."""
        return _table(self)


@dataclass(frozen=True)
class _Noticed:
    kind: str
    trial: str
    severity: float | None
    evidence: str
    advice: str


def diagnose(bundles: Sequence[Bundle]) -> Diagnosis:
    """Read every step table and say what is noticed."""
    return diagnose_from(bundles, digest_all(bundles))


def diagnose_from(bundles: Sequence[Bundle], digests: Digests) -> Diagnosis:
    """The same with digests that are there already."""
    findings: list[Anomaly] = []
    for bundle in bundles:
        for series in measure(bundle):
            for point in series.points:
                findings += _of_point(bundle.label, series.name, point, digests)
    findings.sort(key=lambda f: (-_weight(f.severity), f.bundle, f.series, f.workers, f.kind))
    return Diagnosis(tuple(findings), len(digests.of), digests.rows, digests.problems, _left_out(bundles))


def _left_out(bundles: Sequence[Bundle]) -> tuple[tuple[str, int], ...]:
    """Phase and reason of the trials that ended otherwise than well, the most frequent first."""
    records = [trial.record for bundle in bundles for trial in bundle.trials if trial.record and not trial.good]
    ends = Counter(f"{record.phase.value}: {record.reason or 'no reason given'}" for record in records)
    return tuple(sorted(ends.items(), key=lambda pair: (-pair[1], pair[0])))


def _of_point(bundle: str, series: str, point: MeasuredPoint, digests: Digests) -> Iterator[Anomaly]:
    """Findings of one point: the same thing in several of its trials is one finding, with the worst as evidence."""
    noticed: dict[str, list[_Noticed]] = {}
    trials = [trial for trial in point.trials if trial.good]
    for trial in trials:
        found = digests.of.get((bundle, trial.name))
        seen = [look(trial) for look in _LOOKS_AT_RECORDS]
        seen += [look(trial, found) for look in _LOOKS_AT_STEPS] if found else []
        for each in seen:
            if each:
                noticed.setdefault(each.kind, []).append(each)
    disagreement = _repetitions(point)
    if disagreement:
        noticed[disagreement.kind] = [disagreement]
    for kind, several in noticed.items():
        worst = max(several, key=lambda n: (_weight(n.severity), n.trial))
        names = tuple(n.trial for n in several if n.trial)
        yield Anomaly(
            bundle=bundle,
            kind=kind,
            series=series,
            workers=point.point.workers,
            trials=names or tuple(trial.name for trial in trials),
            of=len(trials),
            severity=worst.severity,
            evidence=worst.evidence,
            advice=worst.advice,
        )


def _weight(severity: float | None) -> float:
    """What findings are sorted by; rounded, so that the last bits of two machines cannot change the order."""
    return 0.0 if severity is None else round(severity, 6)


def _never_steady(trial: Trial) -> _Noticed | None:
    warmup = trial.record.warmup if trial.record else None
    if warmup is None or warmup.stable:
        return None
    evidence = f"step time had not become steady after {warmup.steps} warm-up steps, and timing began all the same"
    advice = "raise measure.maxWarmupSteps, or look for what disturbs the machine"
    return _Noticed("never steady", trial.name, None, evidence, advice)


def _shared_cores(trial: Trial) -> _Noticed | None:
    loads = [load for load in (trial.record.foreign_load if trial.record else []) if load is not None]
    if not loads or max(loads) < SHARED_CORES:
        return None
    evidence = f"other processes took up to {spelling.percent(max(loads), 0)} of a worker's cores"
    advice = (
        "stop them, or give the trial cores of its own; measure.maxForeignLoad decides when such a trial is Invalid"
    )
    return _Noticed("shared cores", trial.name, None, evidence, advice)


def _stolen_cores(trial: Trial) -> _Noticed | None:
    loads = [load for load in (trial.record.stolen_load if trial.record else []) if load is not None]
    if not loads or max(loads) < SHARED_CORES:
        return None
    evidence = f"the hypervisor gave up to {spelling.percent(max(loads), 0)} of a worker's cores to other guests"
    advice = "run on a host with dedicated cores, or at another time; nothing on this machine helps"
    return _Noticed("stolen cores", trial.name, None, evidence, advice)


def _drift(trial: Trial, found: StepDigest) -> _Noticed | None:
    seen = found.drift
    if seen is None or not seen.drifting:
        return None
    slower = seen.relative > 0
    evidence = (
        f"step time {'rises' if slower else 'falls'} by {spelling.percent(abs(seen.relative))} from the first timed "
        f"step to the last of {found.steps} (p {_p(seen.p_value)})"
    )
    advice = (
        "look at clocks, temperature and memory growth; measure longer windows"
        if slower
        else "it was still warming up: raise measure.warmupSteps"
    )
    return _Noticed("drift", trial.name, abs(seen.relative), evidence, advice)


def _modes(trial: Trial, found: StepDigest) -> _Noticed | None:
    seen = found.modes
    if seen is None or not seen.bimodal or seen.fast_mode is None or seen.slow_mode is None:
        return None
    evidence = (
        f"steps are of two kinds: {spelling.seconds(seen.fast_mode)} and, {spelling.percent(seen.slow_share, 0)} of "
        f"them, {spelling.seconds(seen.slow_mode)}"
    )
    advice = "look for something periodic: data loading, garbage collection, logging, clocks that switch, a neighbour"
    effect = seen.slow_share * (seen.slow_mode / seen.fast_mode - 1)
    return _Noticed("two kinds of steps", trial.name, effect, evidence, advice)


def _warm_up(trial: Trial, found: StepDigest) -> _Noticed | None:
    seen = found.warm_up
    if seen is None or not seen.too_short:
        return None
    done = trial.record.warmup.steps if trial.record and trial.record.warmup else None
    evidence = (
        f"the first {seen.discard} timed steps are {spelling.percent(seen.excess)} slower than the rest"
        + (f", after {done} warm-up steps" if done is not None else "")
        + f"; the mean step is {spelling.percent(seen.bias)} too long"
    )
    wanted = (done or trial.spec.measure.warmup_steps) + seen.discard
    return _Noticed(
        "warm-up too short", trial.name, seen.bias, evidence, f"set measure.warmupSteps to {wanted} or more"
    )


def _slow_rank(trial: Trial, found: StepDigest) -> _Noticed | None:
    seen = found.slow_ranks
    if seen is None or not seen.slow:
        return None
    rank = seen.ranks[0]
    where = ""
    if trial.record is not None and rank < len(trial.record.topology):
        topology = trial.record.topology[rank]
        where = f" ({topology.device_name}, {topology.device}, on {topology.node or topology.host})"
    windows = "steps without the all-reduce" if found.own_medians is not None else "timed steps"
    evidence = (
        f"rank {rank}{where} takes {spelling.percent(seen.excess[rank])} longer than the other ranks by its median of "
        f"the {windows}; it is the slowest in {spelling.percent(found.slowest_share[rank], 0)} of the timed steps"
        + (f"; also slow: {', '.join(map(str, seen.ranks[1:9]))}" if len(seen.ranks) > 1 else "")
    )
    advice = "every rank waits for it: compare its clocks, temperature, cores and neighbours; move it or leave it out"
    return _Noticed("slow rank", trial.name, seen.excess[rank], evidence, advice)


def _stragglers(trial: Trial, found: StepDigest) -> _Noticed | None:
    seen = found.stragglers
    if seen is None or not seen.straggling:
        return None
    if found.slow_ranks is not None and found.slow_ranks.slow:
        return None  # one slow rank is the whole story
    evidence = (
        f"{spelling.percent(seen.cost)} of the time goes by waiting for the slowest rank, a different one each time; "
        f"{spelling.percent(seen.share)} of the steps have a rank more than 10 % behind the median"
    )
    advice = "uneven work or interrupted ranks: look at data loading, pinned cores, and other processes on the nodes"
    return _Noticed("stragglers", trial.name, seen.cost, evidence, advice)


_LOOKS_AT_RECORDS: tuple[Callable[[Trial], _Noticed | None], ...] = (_never_steady, _shared_cores, _stolen_cores)
_LOOKS_AT_STEPS: tuple[Callable[[Trial, StepDigest], _Noticed | None], ...] = (
    _drift,
    _modes,
    _warm_up,
    _slow_rank,
    _stragglers,
)


def _repetitions(point: MeasuredPoint) -> _Noticed | None:
    """Repetitions further apart than ``DISAGREEMENT``, and than the windows within them explain."""
    if len(point.samples) < 2:
        return None
    rates = [total.total_samples / total.total_wall_s for total in point.samples]
    spread = max(rates) / min(rates) - 1
    within = max(_spread_of_windows(total.samples, total.wall_s) for total in point.samples)
    if spread < DISAGREEMENT or spread < 2 * within:
        return None
    spelled = ", ".join(spelling.number(rate) for rate in rates)
    evidence = f"repetitions do {spelled} samples/s: {spelling.percent(spread)} from smallest to largest"
    if within > 0:
        evidence += f", while the windows of one run agree to {spelling.percent(within)}"
    advice = "something changes from run to run (placement, clocks, neighbours): fix it, or raise measure.repetitions"
    return _Noticed("repetitions disagree", "", spread, evidence, advice)


def _spread_of_windows(samples: Sequence[float], wall_s: Sequence[float]) -> float:
    rates = [count / wall for count, wall in zip(samples, wall_s, strict=True)]
    return max(rates) / min(rates) - 1


def _p(value: float) -> str:
    return "below 1e-9" if value < 1e-9 else f"{value:.1e}" if math.isfinite(value) else "unknown"


def _table(diagnosis: Diagnosis) -> Table:
    several = len({finding.bundle for finding in diagnosis.findings}) > 1
    columns = (
        Column("experiment", "Experiment", detail=not several),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("kind", "Noticed"),
        Column("trials", "In trials"),
        Column("effect", "Effect", "percent"),
        Column("evidence", "Evidence"),
        Column("advice", "What to do"),
    )
    rows = tuple(
        (f.bundle, f.series, f.workers, f.kind, f"{len(f.trials)} of {f.of}", f.severity, f.evidence, f.advice)
        for f in diagnosis.findings
    )
    looked = f"Looked at {diagnosis.rows:,} step rows of {diagnosis.trials:,} trials."
    notes = [looked]
    if diagnosis.left_out:
        ends = ", ".join(f"{count} {end}" for end, count in diagnosis.left_out)
        notes.append(f"Not looked at, for they enter no curve: {ends}. What happened stands in each trial's message.")
    elif not diagnosis.trials:
        notes.append("There was nothing to look at: no trial has ended, or none has a record that can be read.")
    notes += [*(f"{label}: {problem.file}: {problem.what}" for label, problem in diagnosis.problems)]
    return Table("diagnosis", "Diagnosis", columns, rows, tuple(notes))
