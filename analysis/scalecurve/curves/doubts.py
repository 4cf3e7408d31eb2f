"""Points that do not count: of programs that did not prove themselves, or only reported; impossible efficiencies.

They stay in tables and plots, marked, and stand in the first lines. Headlines leave them out, and so do costs,
comparisons and models unless told otherwise.
"""

from collections.abc import Sequence
from dataclasses import replace

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries
from scalecurve.curves.results import PointResult, ScalingResult
from scalecurve.curves.same_work import OtherWork
from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.record.checks.proof import MOST_EFFICIENCY, MOST_EFFICIENCY_UNCERTAIN, unproved
from scalecurve_api.spec.trial import InvalidReason
from scalecurve_api.text import count, few, listed

_UNSEEN = {
    InvalidReason.no_communication: "no communication was observed",
    InvalidReason.same_data: "workers were not observed to read different data",
    InvalidReason.not_trained: "no parameter was observed to change",
    InvalidReason.replicas_diverged: "parameters were not compared at the end",
    InvalidReason.untimed_work: "untimed steps took longer than timed ones",
}

NOT_CHECKED = "imported, not checked by ScaleCurve"
Named = tuple[str, PointResult]  # with the name of the series


def doubts(
    measured: MeasuredPoint, efficiency: Estimate | None, off_plan: bool, others: Sequence[OtherWork] = ()
) -> tuple[InvalidReason, ...]:
    """What keeps a point from counting; ``off_plan`` if its samples are not those that were planned.

    ``others`` is what differs from the baseline's work.
    """
    reasons = [reason for record in measured.good for reason in unproved(record)]
    reasons += [other.reason for other in others]
    if efficiency is not None and efficiency.value > MOST_EFFICIENCY:
        noise_explains = efficiency.unknown or (efficiency.low is not None and efficiency.low <= MOST_EFFICIENCY)
        # One number from elsewhere has no interval: its source leaves open how much of it is noise.
        single = efficiency.low is None and any(record.imported for record in measured.good)
        noise_explains = noise_explains or (single and efficiency.value <= MOST_EFFICIENCY_UNCERTAIN)
        if off_plan or not noise_explains:
            reasons.append(InvalidReason.impossible_efficiency)
    return tuple(dict.fromkeys(reasons))


def counted(series: MeasuredSeries, points: Sequence[PointResult]) -> MeasuredSeries:
    """The series, with the trials of doubtful points set aside; the same one if there are none."""
    if not any(point.doubts for point in points):
        return series
    kept = (
        replace(measured, trials=tuple(replace(trial, set_aside=True) for trial in measured.trials))
        if point.doubts
        else measured
        for measured, point in zip(series.points, points, strict=True)
    )
    return replace(series, points=tuple(kept))


def all_counted(measured: Sequence[MeasuredSeries], result: ScalingResult) -> list[MeasuredSeries]:
    """Every series as ``counted`` has it, by the points that became of them."""
    points = {(series.bundle, series.name): series.points for series in result.series}
    return [counted(series, points[series.bundle, series.name]) for series in measured]


def first_lines(points: Sequence[Named]) -> tuple[str, ...]:
    """What a reader must know before any number of these points; nothing where all were measured here and count."""
    return (*provenance_lines(points), *doubtful_lines(points))


def provenance_lines(points: Sequence[Named]) -> tuple[str, ...]:
    """That points were measured elsewhere, and which, where that is not true of all of them."""
    elsewhere = [p.workers for _, p in points if p.imported]
    if not elsewhere:
        return ()
    workers = f"at {listed(dict.fromkeys(elsewhere), 'worker')}"
    some = f": {len(elsewhere)} of {count(len(points), 'point')}, {workers}"
    return (f"{NOT_CHECKED}{'' if len(elsewhere) == len(points) else some}",)


def doubtful_lines(points: Sequence[Named]) -> tuple[str, ...]:
    """The points that do not count, and why; nothing where all of them do."""
    measured = [(name, p) for name, p in points if p.measured]
    several = len({name for name, _ in measured}) > 1

    def spell_places(shown: Sequence[Named]) -> str:
        counts: dict[str, list[int]] = {}
        for name, p in shown:
            counts.setdefault(name, []).append(p.workers)
        places = (listed(workers, "worker") for workers in counts.values())
        return few(
            f"in {name} at {place}" if several else f"at {place}" for name, place in zip(counts, places, strict=True)
        )

    def spell_line(label: str, shown: Sequence[Named], why: str) -> str:
        return f"{label}: {len(shown)} of {count(len(measured), 'point')}: {why}"

    lines = []
    if unseen := [(name, p) for name, p in measured if not _UNSEEN.keys().isdisjoint(p.doubts)]:
        places: dict[str, list[str]] = {}
        for reason, why in _UNSEEN.items():
            if them := [(name, p) for name, p in unseen if reason in p.doubts]:
                places.setdefault(spell_places(them), []).append(why)
        whys = (f"{', '.join(whys)} {place}" for place, whys in places.items())
        lines.append(spell_line("unproved", unseen, "; ".join(whys)))
    if told := [(name, p) for name, p in measured if InvalidReason.reported in p.doubts]:
        lines.append(
            spell_line("reported", told, f"times are those that the program printed, unchecked, {spell_places(told)}")
        )
    if different := [(name, p) for name, p in measured if p.other_work]:
        whys = (f"{', '.join(p.other_work)}, {spell_places([(name, p)])}" for name, p in different)
        lines.append(spell_line("other work than the baseline", different, few(whys)))
    if meant := [(name, p) for name, p in measured if p.declared_work]:
        whys = (f"{', '.join(p.declared_work)}, {spell_places([(name, p)])}" for name, p in meant)
        lines.append(spell_line("work varies as declared (workload.workVaries)", meant, few(whys)))
    if beyond := [(name, p) for name, p in measured if InvalidReason.impossible_efficiency in p.doubts]:
        values = [
            (formatting.interval(p.efficiency, True), spell_places([(name, p)])) for name, p in beyond if p.efficiency
        ]
        why = f"efficiency {few(' '.join(value) for value in values)}; its samples, a clock or the baseline is wrong"
        lines.append(spell_line("impossible", beyond, why))
    if other := [(name, p) for name, p in measured if p.off_plan]:
        batches = ((p.effective_batch or 0, p.point.global_batch, spell_places([(name, p)])) for name, p in other)
        used = few(
            f"{formatting.number(batch)} instead of {planned} a step {where}" for batch, planned, where in batches
        )
        lines.append(spell_line("samples differ from the plan", other, used))
    return tuple(lines)
