"""May this bundle pass? Its trials, and its throughput against a baseline, its own history, and stated expectations.

A check fails where a throughput is lower: beyond noise and by more than a threshold (baseline, history), or by more
than the tolerance (expectations). What cannot be decided fails nothing, and is said. What only a prior for the spread
between sessions decides fails once, and again in a fresh session: only then it is failed, unless it is far beyond it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import Bundle
from scalecurve.checks.compare import PRIOR_HOLDS, compare
from scalecurve.curves.compute import believable, scaling
from scalecurve.render import formatting
from scalecurve.statistics.comparison import BY_PRIOR, DEFAULT_THRESHOLD, FAR, Change, Pair, all_named, changes, stated
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.intervals import throughput
from scalecurve.statistics.spread import Spread
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count, few
from scalecurve_timelines.catalog import contents
from scalecurve_timelines.expectations import Expectation, matching, met
from scalecurve_timelines.reading import PointReading, read
from scalecurve_timelines.timeline import (
    ExperimentTimeline,
    Key,
    earlier_spread,
    repetitions_since,
    sessions_of,
    sessions_since,
    timeline,
    totals,
)

FALSE_ALARMS = 0.025
"""Of gates of a bundle as fast as its baseline, or its history, at most so many fail at any point."""


class CheckOutcome(StrEnum):
    """Of one check."""

    FAILED = "failed"
    UNCONFIRMED = "failed once"
    UNDECIDED = "undecided"
    PASSED = "passed"


@dataclass(frozen=True)
class GateCheck:
    """One thing that was checked: of a point (`series`, `workers`), or of the bundle.

    `ratio` is `now` over `reference`, which is what `now` is held against; both in samples/s. `change` has what decided
    and the smallest change that it would find.
    """

    kind: str
    outcome: CheckOutcome
    detail: str
    series: str = ""
    workers: int | None = None
    now: Estimate | None = None
    reference: Estimate | None = None
    ratio: Estimate | None = None
    change: Change | None = None

    @property
    def decided_by(self) -> str | None:
        """The spread that decided and where it is from; None of a check that needs none."""
        return self.change.decided_by if self.change and self.change.changed is not None else None

    @property
    def compares(self) -> bool:
        """Whether it compares a number, and not only looks at the bundle."""
        return self.reference is not None

    @property
    def where(self) -> str:
        return f"{self.series} at {count(self.workers, 'worker')}" if self.workers else "bundle"


@dataclass(frozen=True)
class Gate:
    """All checks of a bundle, the failed ones first; `fresh_session` is the command that confirms or clears one."""

    label: str
    checks: tuple[GateCheck, ...]
    notes: tuple[str, ...]
    fresh_session: str = ""

    def of(self, outcome: CheckOutcome) -> list[GateCheck]:
        return [check for check in self.checks if check.outcome is outcome]

    @property
    def failed(self) -> bool:
        return bool(self.of(CheckOutcome.FAILED))

    @property
    def unconfirmed(self) -> bool:
        """Whether a point failed once, and has to fail again in a fresh session."""
        return bool(self.of(CheckOutcome.UNCONFIRMED))

    @property
    def decided_by(self) -> list[str]:
        """Every spread that decided, each once."""
        return list(all_named(_decisive_changes(self.checks)))

    @property
    def false_alarms(self) -> float | None:
        """Of gates of an equal bundle, the share that fails at most; None where a spread decided nothing."""
        return FALSE_ALARMS if self.decided_by else None

    @property
    def decided(self) -> bool:
        """Whether any number was compared: a gate that compared none has not let anything through."""
        return any(check.compares and check.outcome is not CheckOutcome.UNDECIDED for check in self.checks)

    @property
    def verdict(self) -> str:
        failed, once, undecided = (len(self.of(outcome)) for outcome in list(CheckOutcome)[:3])
        word = "failed" if failed else "failed once" if once else "passed" if self.decided else "undecided"
        parts = [f"{failed} of {count(len(self.checks), 'check')} failed"]
        parts += [f"{once} failed once"] if once else []
        parts += [f"{undecided} undecided"] if undecided else []
        return f"{word}: {', '.join(parts)}"


def gate(
    bundle: Bundle,
    baseline: Bundle | None = None,
    history: Sequence[str | os.PathLike[str]] = (),
    expectations: Sequence[Expectation] = (),
    threshold: float = DEFAULT_THRESHOLD,
    *,
    session_sd: float | None = None,
    catalog: Path | None = None,
    include_unproved: bool = False,
    further: tuple[Sequence[GateCheck], Sequence[str]] = ((), ()),
) -> Gate:
    """Check the bundle's trials, and hold its throughput against all that is named.

    Args:
        bundle: The bundle to judge.
        baseline: A bundle that `compare` compares it with.
        history: Folders of earlier bundles; the sessions of the same experiment since its last change decide.
        expectations: What `expectations_of` returned.
        threshold: Smallest loss that fails, as a fraction of throughput.
        session_sd: Spread between sessions, stated as a fraction of throughput.
        catalog: File that keeps what was read of `history` for the next call; None keeps nothing.
        include_unproved: Also use points that do not count (`scalecurve.curves.doubts`).
        further: Checks that were made elsewhere, and their notes.

    Returns:
        Every check with its result, and whether the bundle passed.

    Raises:
        BundleError: for a folder without a bundle.
        ValueError: where nothing is named to hold it against, or `session_sd` is no fraction.
    """
    if baseline is None and not history and not expectations and not further[0]:
        raise ValueError("nothing to compare the bundle with: add a baseline, a history or expectations")
    checks = [*_check_trials(bundle), *_check_doubts(bundle, include_unproved), *further[0]]
    notes = list(further[1])
    if baseline is not None:
        checks += _check_baseline(baseline, bundle, threshold, session_sd, include_unproved)
    believed = believable(bundle, include_unproved)
    if history:
        of_history, said = _check_history(believed, history, threshold, stated(session_sd), catalog, include_unproved)
        checks += of_history
        notes += said
    if expectations:
        checks += _check_expectations(believed, expectations)
    order = list(CheckOutcome)
    in_order = tuple(sorted(checks, key=lambda check: order.index(check.outcome)))
    return Gate(bundle.label, in_order, (*_rates(in_order), *notes), _fresh_session(bundle))


def _rates(checks: Sequence[GateCheck]) -> Iterator[str]:
    """What decided, how often it is wrong, and what a point that failed once needs."""
    by_spread = _decisive_changes(checks)
    if not by_spread:
        return
    yield f"Decided by: {'; '.join(all_named(by_spread))}"
    prior = any(change.basis in BY_PRIOR for change in by_spread)
    most = formatting.stated_percent(FALSE_ALARMS)
    alarms = f"Of gates of an equal bundle {most} at most fail, or fail once, at any point"
    yield f"{alarms}{f', {PRIOR_HOLDS}' if prior else ''}"
    if prior:
        yield (
            "By the prior a point fails once. It is failed where a fresh session is slower, too, and at once where "
            f"less than {formatting.stated_percent(FAR)} of equal bundles differ by so much"
        )


def _decisive_changes(checks: Sequence[GateCheck]) -> list[Change]:
    return [check.change for check in checks if check.change and check.change.changed is not None]


def _fresh_session(bundle: Bundle) -> str:
    folder = bundle.path if bundle.path.is_dir() else Path("FOLDER")
    return f"scalecurve run {folder / 'experiment.yaml'} --bundle {folder} --add-session"


def _check_trials(bundle: Bundle) -> Iterator[GateCheck]:
    wrong: dict[str, list[str]] = {}
    for trial in bundle.trials:
        if trial.phase not in (TrialPhase.succeeded, TrialPhase.full):
            wrong.setdefault(trial.phase.value if trial.phase else "unfinished", []).append(trial.name)
    detail = "; ".join(f"{len(names)} {phase}: {few(names, 3)}" for phase, names in sorted(wrong.items()))
    outcome = CheckOutcome.FAILED if wrong or not bundle.trials else CheckOutcome.PASSED
    yield GateCheck("trials", outcome, detail or _trial_summary(bundle))
    refuted = [f"{claim.what}: {claim.detail}" for claim in bundle.claims if claim.holds is False]
    outcome = CheckOutcome.FAILED if refuted or bundle.problems else CheckOutcome.PASSED
    yield GateCheck(
        "integrity", outcome, few([*refuted, *map(str, bundle.problems)], 3) or "nothing contradicts the bundle"
    )


def _trial_summary(bundle: Bundle) -> str:
    full = sum(trial.phase is TrialPhase.full for trial in bundle.trials)
    rest = f"{full} ended a ladder of batches" if full else "all valid"
    return f"{count(len(bundle.trials), 'trial')}, {rest}"


def _check_doubts(bundle: Bundle, include_unproved: bool) -> Iterator[GateCheck]:
    if not include_unproved:
        for series in scaling([bundle]).series:
            for p in series.points:
                if p.doubts:
                    why = f"excluded: {', '.join(p.doubts)}; --include-unproved includes it"
                    yield GateCheck("proof", CheckOutcome.UNDECIDED, why, series.name, p.workers, p.throughput)


def _check_baseline(
    baseline: Bundle, bundle: Bundle, threshold: float, session_sd: float | None, unproved: bool
) -> Iterator[GateCheck]:
    compared = compare(baseline, bundle, threshold, session_sd=session_sd, include_unproved=unproved)
    for p in compared.points:
        yield _check("baseline", p.point.series, p.point.workers, p.after, p.before, p.change)
    for name in compared.only_before:
        yield GateCheck("baseline", CheckOutcome.UNDECIDED, f"{name} was measured in the baseline only")


def _check(kind: str, series: str, workers: int, now: Estimate, reference: Estimate, change: Change) -> GateCheck:
    if change.changed is None:
        outcome, detail = CheckOutcome.UNDECIDED, change.basis.value
    elif change.past_threshold and change.slower:
        outcome = CheckOutcome.FAILED if change.confirmed else CheckOutcome.UNCONFIRMED
        detail = f"slower, beyond noise and more than {formatting.stated_percent(change.threshold)}"
        detail += "" if change.confirmed else ", in one session: a fresh one has to be slower, too"
    else:
        word = (
            "faster" if change.past_threshold else "slower, but within the threshold" if change.changed else "unchanged"
        )
        outcome, detail = CheckOutcome.PASSED, word if change.changed else "unchanged within noise"
    if change.detectable is not None:
        detail += f"; smallest detectable change {formatting.percent(change.detectable)}"
    elif change.changed is not None:
        detail += "; the repetitions differ too much to detect any"
    return GateCheck(kind, outcome, detail, series, workers, now, reference, change.ratio, change)


def _check_history(
    bundle: Bundle,
    folders: Sequence[str | os.PathLike[str]],
    threshold: float,
    session_sd: Spread | None,
    catalog: Path | None,
    include_unproved: bool,
) -> tuple[list[GateCheck], list[str]]:
    own = [reading for reading in read(bundle).readings if reading.repetitions]
    runs = {run for reading in own for repetition in reading.repetitions for run in repetition.runs}
    sessions, notes = sessions_of(contents(folders, catalog), include_unproved, runs)
    names = dict.fromkeys(reading.experiment for reading in own)
    checks: list[GateCheck] = []
    for name in names:
        past = timeline(name, sessions.get(name, []), "throughput")
        now: dict[Key, list[PointReading]] = {}
        for reading in own:
            now.setdefault((reading.series, reading.workers, reading.layout), []).append(reading)
        checks += _points_against(past, now, threshold, session_sd)
    return checks, notes


def _points_against(
    past: ExperimentTimeline, now: dict[Key, list[PointReading]], threshold: float, session_sd: Spread | None
) -> Iterable[GateCheck]:
    curves = {curve.key: curve for curve in past.curves}
    shared = [key for key in now if key in curves]
    since = {key: sessions_since(past, curves[key]) for key in shared}
    pairs = []
    for key in shared:
        before = repetitions_since(past, curves[key])
        after = [r for reading in now[key] for r in totals(reading, len(since[key]) + reading.session)]
        pairs.append(Pair(before, after, between=session_sd or earlier_spread(curves[key])))
    for key, pair, change in zip(shared, pairs, changes(pairs, threshold=threshold), strict=True):
        check = _check("history", key[0], key[1], throughput(pair.after), curves[key].current, change)
        begin = f" since {since[key][0].day}" if curves[key].changes else ""
        yield GateCheck(**{**vars(check), "detail": f"{check.detail}; {count(len(since[key]), 'session')}{begin}"})
    for key in now:
        if key not in curves:
            why = "no earlier session measured it"
            yield GateCheck("history", CheckOutcome.UNDECIDED, why, key[0], key[1], throughput(totals(now[key][0])))


def _check_expectations(bundle: Bundle, expectations: Sequence[Expectation]) -> Iterator[GateCheck]:
    for series in measure(bundle):
        for p in series.points:
            if not p.timed:
                continue
            rate = throughput(p.samples)
            fitting = matching(expectations, p)
            for expectation in fitting:
                expected, ratio, holds = met(expectation, p.point.workers, rate)
                tolerance = expectation.tolerance_at(p.point.workers)
                detail = (
                    f"{expectation.key}: at most {formatting.percent(tolerance)} below is allowed; "
                    f"{expectation.date.isoformat()}, {expectation.source}"
                )
                if ratio > 1 + tolerance:
                    detail = f"faster than expected: consider a new expectation. {detail}"
                yield GateCheck(
                    "expectation",
                    CheckOutcome.PASSED if holds else CheckOutcome.FAILED,
                    detail,
                    series.name,
                    p.point.workers,
                    rate,
                    _exact(expected),
                    _exact(ratio),
                )
            if not fitting:
                why = "no expectation for this device, fabric, model and settings"
                yield GateCheck("expectation", CheckOutcome.UNDECIDED, why, series.name, p.point.workers, rate)


def _exact(value: float) -> Estimate:
    return Estimate(value, None, None, 0.95, Method.NONE, 0)
