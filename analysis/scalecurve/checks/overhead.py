"""What being measured costs the measured program: instrumented steps against bare ones, in turns in every trial.

Turns go as ABBA or BAAB, drawn for each block, so that what drifts in a line cancels out (a switchback experiment: I.
Bojinov et al., Management Science 69, 2023). The unit of replication is the trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries
from scalecurve.render import formatting
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.mean import mean
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

NOTABLE = 0.01
"""Of a step: a trial that costs more than this for being measured is a finding"""
LARGEST_HALF = 0.05
"""Of a step: a wider half interval says nothing of a cost that is to stay below a hundredth"""
NOTES = (
    "Overhead = time of instrumented steps / time of bare ones - 1, of the slowest rank, in turns after the last "
    "window. In bare steps nothing is marked, sampled, written or counted; two time stamps are left.",
    "Not seen: what both have, as hooks that find the steps, a loaded library or memory that is held.",
)


@dataclass(frozen=True)
class MeasuredOverhead:
    """Of a point: the share of a step by which measuring lengthens it, in each of its trials and as their mean."""

    bundle: str
    series: str
    point: Point
    shares: tuple[float, ...]
    mean: Estimate


def overheads(series: Sequence[MeasuredSeries], level: float = 0.95) -> tuple[MeasuredOverhead, ...]:
    """Of every point with valid trials that took turns."""
    found = []
    for curve in series:
        for p in curve.points:
            if shares := shares_of(p):
                found.append(MeasuredOverhead(curve.bundle, curve.name, p.point, shares, mean_of(shares, level)))
    return tuple(found)


def shares_of(point: MeasuredPoint) -> tuple[float, ...]:
    """Of each valid trial of the point that took turns."""
    shares = [overhead_of(trial.record) for trial in point.trials if trial.good]
    return tuple(share for share in shares if share is not None)


def mean_of(shares: Sequence[float], level: float = 0.95) -> Estimate:
    """Over trials, by Student's t; not known where they leave more than ``LARGEST_HALF`` open."""
    found = mean(shares, level)
    wide = found.half_width is not None and found.half_width > LARGEST_HALF
    return Estimate.not_known(found.value, level, len(shares)) if wide else found


def overhead_of(record: TrialRecord | None) -> float | None:
    """Of one trial; None where no step was bare."""
    instrumented, bare = (
        [window for window in (record.windows if record else ()) if window.kind is kind and window.wall_ns > 0]
        for kind in (WindowKind.instrumented, WindowKind.bare)
    )
    if not instrumented or not bare:
        return None
    longer, shorter = (sum(w.wall_ns for w in each) / sum(w.steps for w in each) for each in (instrumented, bare))
    return longer / shorter - 1


def largest_in_words(points: Sequence[MeasuredOverhead], level: float = 0.95) -> str:
    """As "overhead 0.1 % (-0.1 to 0.3)": over all trials with the most workers; empty without any.

    Of trials that differ too much no figure is said, for it would be of their noise.
    """
    most = max((each.point.workers for each in points), default=0)
    shares = [share for each in points if each.point.workers == most for share in each.shares]
    if not shares:
        return ""
    found = mean_of(shares, level)
    if found.unknown:
        return f"overhead not known: {count(len(shares), 'trial')} differ too much"
    return f"overhead {formatting.interval(found, as_percent=True)}{' (one trial)' if len(shares) == 1 else ''}"


def overhead_table(points: Sequence[MeasuredOverhead]) -> Table:
    """One row a point."""
    return table_of(
        "overhead",
        "Overhead of the measurement",
        points,
        (
            (experiment_column(each.bundle for each in points), lambda each: each.bundle),
            (Column("series", "Series"), lambda each: each.series),
            (Column("workers", "Workers", "count"), lambda each: each.point.workers),
            (Column("layout", "Layout"), lambda each: each.point.layout),
            (Column("trials", "Trials", "count"), lambda each: len(each.shares)),
            (Column("overhead", "Overhead", "percent", interval=True), lambda each: each.mean),
        ),
        NOTES if points else (),
    )
