"""How far a plan may be run now.

Sessions wait for each other, precision drops repetitions that it does not need, and a ladder of batches ends where
memory is full. Pure, for both engines and the analysis. It depends on results alone, which never change once a trial
is terminal: so what was dropped stays dropped, whoever looks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scalecurve_api.planning.ladder import beyond
from scalecurve_api.planning.plan import Plan, baseline_of
from scalecurve_api.planning.precision import enough
from scalecurve_api.spec.experiment import ExperimentSpec


@dataclass(frozen=True, slots=True)
class Horizon:
    """Trials at positions before ``end`` may start; those in ``dropped`` are not run.

    ``end`` is where a session begins whose time is ``due`` (in Unix seconds), or where it takes the results of all
    trials before to go on (``due`` is None).
    """

    end: int
    dropped: frozenset[int] = frozenset()
    due: float | None = None


def horizon(
    spec: ExperimentSpec,
    plan: Plan,
    results: Mapping[int, float | None],
    began: Mapping[int, float],
    now: float,
    full: Collection[int] = (),
) -> Horizon:
    """How far a plan may be run at the moment ``now``, in Unix seconds.

    ``results`` has the throughput of every terminal trial by its position, None if it did not succeed. ``began`` has
    the beginning of sessions in Unix seconds; the one after a session that is not in it is not waited for. ``full`` are
    the positions of those of ``results`` that ran out of memory at the end of a ladder.
    """
    measure, size, total = spec.measure, len(plan.points), len(plan.trials)
    least, per_session = size * measure.repetitions, size * measure.most_repetitions
    needless = _needless_trials(plan, results, full)
    for session, first in enumerate(range(0, total, per_session)):
        due = began.get(session - 1, float("-inf")) + measure.sessions.every_hours * 3600
        if now < due:
            return Horizon(first, frozenset(needless), due)
        settled: set[str] = set()
        for block in range(first + least, first + per_session, size):
            if any(at not in results and at not in needless for at in range(first, block)):
                return Horizon(block, frozenset(needless))
            settled |= _precise(spec, plan, results, block)
            needless.update(at for at in range(block, block + size) if plan.trials.point(at).series in settled)
        if any(at not in results and at not in needless for at in range(first, first + per_session)):
            return Horizon(first + per_session, frozenset(needless))
    return Horizon(total, frozenset(needless))


def dropped(
    spec: ExperimentSpec, plan: Plan, results: Mapping[str, float | None], full: Collection[str] = ()
) -> set[str]:
    """Names of trials that are not needed; ``results`` has throughputs by name, and both are else as above."""
    if spec.measure.precision is None and not full:
        return set()
    names = plan.trials.names
    by_position = {at: results[name] for at, name in enumerate(names) if name in results}
    at_full = {at for at in by_position if names[at] in full}
    if spec.measure.precision is None:
        return {names[at] for at in _needless_trials(plan, by_position, at_full)}
    return {names[at] for at in horizon(spec, plan, by_position, {}, 0.0, at_full).dropped}


def _needless_trials(plan: Plan, results: Mapping[int, float | None], full: Collection[int]) -> set[int]:
    """The trials without a result that the end of their ladder makes needless."""
    ended = beyond(plan.points, (plan.trials.point(at) for at in full))
    if not ended:
        return set()
    return {at for at in range(len(plan.trials)) if at not in results and plan.trials.point(at).name in ended}


def _precise(spec: ExperimentSpec, plan: Plan, results: Mapping[int, float | None], until: int) -> set[str]:
    """The series of which every point is known precisely enough, by what was measured before a position.

    A series is repeated as a whole: its points then share the same moments, and its baseline is as precise as they are.
    """
    precision, most = spec.measure.precision, spec.measure.most_repetitions
    assert precision is not None
    per_session = len(plan.points) * most
    series: dict[str, dict[int, list[list[float]]]] = {}
    for at in range(until):
        point = plan.trials.point(at)
        sessions = series.setdefault(point.series, {}).setdefault(point.workers, [])
        sessions += [[] for _ in range(at // per_session + 1 - len(sessions))]
        if throughput := results.get(at):
            sessions[-1].append(1 / throughput)
    precise = set()
    for name, points in series.items():
        measured = {workers: sessions for workers, sessions in points.items() if any(sessions)}
        base = measured[baseline_of(spec, list(measured))] if measured else []
        if all(enough(sessions, base, precision.efficiency, most).enough for sessions in measured.values()):
            precise.add(name)
    return precise
