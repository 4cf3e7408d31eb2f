"""Two bundles, point by point: which changed beyond noise, and which by more than a threshold.

Bundles that ran by turns in one session (``run --against``) are decided by it. All others differ by what lies
between sessions, too: that is known from several sessions, from earlier bundles (``history``), as given, or by a prior.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scalecurve.bundle.consistency import runs
from scalecurve.bundle.differences import Difference
from scalecurve.bundle.measurement import MeasuredPoint, measure
from scalecurve.bundle.open import Bundle, distinct_labels
from scalecurve.checks.comparability import differences_between
from scalecurve.curves.compute import believable
from scalecurve.render import formatting
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Column, Table, table_of
from scalecurve.statistics.comparison import (
    BY_PRIOR,
    DEFAULT_THRESHOLD,
    Change,
    Pair,
    all_named,
    between_sessions,
    changes,
    stated,
)
from scalecurve.statistics.estimate import LARGEST_FACTOR, Estimate
from scalecurve.statistics.intervals import throughput
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

PRIOR_HOLDS = (
    "if sessions differ no more than the prior says, which was chosen on servers with H100s and H200s; "
    "--history, --session-sd and run --add-session tell your own spread, and run --against needs none"
)


@dataclass(frozen=True)
class PointChange:
    """One point that both bundles measured; throughputs in samples/s."""

    point: Point
    before: Estimate
    after: Estimate
    change: Change

    @property
    def verdict(self) -> str:
        """``slower``, ``faster``, ``unchanged within noise``, or ``undecided`` and why."""
        if self.change.changed is None:
            return f"undecided: {self.change.basis.value}"
        if not self.change.changed:
            return "unchanged within noise"
        return "slower" if self.change.slower else "faster"


@dataclass(frozen=True)
class Comparison(OneTable):
    """Changes from ``before`` to ``after``; the lists are points that exist only on one side."""

    before: str
    after: str
    threshold: float
    points: tuple[PointChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    differences: tuple[Difference, ...]
    level: float = 0.95

    @property
    def false_alarms(self) -> float:
        """Share of comparisons of equal things in which a point is called changed, at most."""
        return 1 - self.level

    @property
    def decided_by(self) -> tuple[str, ...]:
        """By what its points are decided, each once."""
        return all_named([p.change for p in self.points if p.change.changed is not None])

    @property
    def past_threshold(self) -> bool:
        """Whether a point changed by more than the threshold in either direction, beyond noise: exit code 1."""
        return any(p.change.past_threshold for p in self.points)

    def _power(self) -> list[str]:
        """What decides, the smallest change that it would find, and how often it is wrong."""
        decided = [p.change for p in self.points if p.change.changed is not None]
        if not decided:
            return []
        most = formatting.stated_percent(self.false_alarms)
        alarms = f"Of comparisons of equal things {most} at most call any point changed"
        by_prior = any(change.basis in BY_PRIOR for change in decided)
        return [
            f"Decided by: {'; '.join(self.decided_by)}. {_smallest([change.detectable for change in decided])}",
            f"{alarms}{f', {PRIOR_HOLDS}' if by_prior else ''}.",
        ]

    def table(self) -> Table:
        notes = [
            f"Threshold {formatting.stated_percent(self.threshold)}, and only changes beyond noise.",
            *self._power(),
        ]
        for side, names in (("before", self.only_before), ("after", self.only_after)):
            notes += [f"Measured {side} only: {'; '.join(names)}."] if names else []
        return table_of(
            "compare",
            f"{self.before} → {self.after}",
            self.points,
            (
                (Column("series", "Series"), lambda p: p.point.series),
                (Column("workers", "Workers", "count"), lambda p: p.point.workers),
                (Column("layout", "Layout"), lambda p: p.point.layout),
                (Column("before", "Before", "number", "/s", interval=True), lambda p: p.before),
                (Column("after", "After", "number", "/s", interval=True), lambda p: p.after),
                (Column("ratio", "After / before", "percent", interval=True), lambda p: p.change.ratio),
                (Column("detectable", "Smallest detectable", "percent"), lambda p: p.change.detectable),
                (Column("adjusted_p", "p (Holm)", "number"), lambda p: p.change.adjusted_p),
                (Column("verdict", "Verdict"), lambda p: p.verdict),
                (Column("decided_by", "Decided by", detail=True), lambda p: p.change.decided_by),
                (Column("past_threshold", "Exceeds threshold", "flag"), lambda p: p.change.past_threshold),
            ),
            [*notes, *(f"{d.what} differs: {d.spelled()}" for d in self.differences)],
        )


def compare(
    before: Bundle,
    after: Bundle,
    threshold: float = DEFAULT_THRESHOLD,
    level: float = 0.95,
    *,
    history: Sequence[Bundle] = (),
    session_sd: float | None = None,
    include_unproved: bool = False,
) -> Comparison:
    """Compare the throughput of the points that both bundles measured, found by series, layout and worker count.

    Args:
        before: The bundle to compare with.
        after: The bundle that may be slower or faster.
        threshold: Smallest change that matters, as a fraction of throughput: 0.05 is five percent.
        level: Level of the intervals, 0.95 for 95 %.
        history: Earlier bundles of the same experiment, from which the spread between sessions is estimated.
        session_sd: That spread, stated instead, as a fraction of throughput.
        include_unproved: Also use points that do not count (`scalecurve.curves.doubts`).

    Returns:
        A verdict for each point and one for all of them.

    Raises:
        ValueError: when `threshold` is negative or not finite, `session_sd` is not positive, or a bundle of `history`
            is a copy of another.
    """
    _refuse_copies(history)
    before, after = (believable(bundle, include_unproved) for bundle in distinct_labels([before, after]))
    first, second = _index_points(before), _index_points(after)
    earlier = [_index_points(bundle) for bundle in history]
    shared = [key for key in first if key in second]
    given = stated(session_sd)
    same = _same_machines(before, after)
    pairs = [
        Pair(
            first[key].samples,
            second[key].samples,
            same and ran_in_turns(first[key].timed, second[key].timed),
            given or between_sessions([points[key].samples for points in earlier if key in points]),
        )
        for key in shared
    ]
    results = changes(pairs, level, threshold)
    before_rates, after_rates = (
        [throughput(of[key].samples, level, of[key].noise) for key in shared] for of in (first, second)
    )
    return Comparison(
        before=before.label,
        after=after.label,
        threshold=threshold,
        points=tuple(
            PointChange(first[key].point, rate_before, rate_after, change)
            for key, rate_before, rate_after, change in zip(shared, before_rates, after_rates, results, strict=True)
        ),
        only_before=tuple(_name(first[key].point) for key in first if key not in second),
        only_after=tuple(_name(second[key].point) for key in second if key not in first),
        differences=differences_between(before, after),
        level=level,
    )


def _smallest(detectable: Sequence[float | None]) -> str:
    """What the comparison would have found, None being a point that scatters too much to find anything."""
    known = [value for value in detectable if value is not None]
    nothing = f"no change below a factor of {LARGEST_FACTOR:g} is detectable: the repetitions differ too much"
    if not known:
        return nothing.capitalize() + "."
    least, most = (formatting.percent(value) for value in (min(known), max(known)))
    span = least if least == most else f"{least} to {most}, depending on the point"
    lost = len(detectable) - len(known)
    beside = f" At {count(lost, 'other point')} {nothing}." if lost else ""
    return f"Smallest detectable change (found in about 3 of 4 comparisons): {span}.{beside}"


def _refuse_copies(history: Sequence[Bundle]) -> None:
    """Equal sessions have no spread, and every change would then be beyond it."""
    seen: dict[Hashable, Bundle] = {}
    for bundle in history:
        if other := next((seen[run] for run in runs(bundle.trials) if run in seen), None):
            raise ValueError(f"{bundle.path}: holds a trial of {other.path}: a copy is no further session")
        seen |= dict.fromkeys(runs(bundle.trials), bundle)


def ran_in_turns(before: Sequence[TrialRecord], after: Sequence[TrialRecord]) -> bool:
    """Whether the trials of both sides alternated, as those of one interleaved session do.

    Their records name it, where `run --against` made them. Else the start times decide: pairs in any order give at
    least one change of sides for each pair.
    """
    named = [{record.paired for record in side} for side in (before, after)]
    if named[0] == named[1] and None not in named[0]:
        return True
    starts = sorted(
        (record.timeline[0].at_ns, side)
        for side, records in enumerate((before, after))
        for record in records
        if record.timeline
    )
    turns = sum(one[1] != other[1] for one, other in pairwise(starts))
    return len(starts) == len(before) + len(after) and turns >= min(len(before), len(after))


def _same_machines(before: Bundle, after: Bundle) -> bool:
    """By the hosts' names, and by a device in common where devices have identities: names may be the same by chance."""
    ranks = [
        [rank for trial in bundle.trials if trial.good and trial.record for rank in trial.record.topology]
        for bundle in (before, after)
    ]
    hosts = [{rank.node or rank.host for rank in side} for side in ranks]
    devices = [{rank.device for rank in side if rank.device and rank.device.startswith("GPU-")} for side in ranks]
    return hosts[0] == hosts[1] and (devices[0] == devices[1] == set() or bool(devices[0] & devices[1]))


def _index_points(bundle: Bundle) -> dict[tuple[str, int, str], MeasuredPoint]:
    return {
        (series.name, p.point.workers, p.point.layout): p
        for series in measure(bundle)
        for p in series.points
        if p.timed
    }


def _name(point: Point) -> str:
    return f"{point.series}, {count(point.workers, 'worker')} ({point.layout})"
