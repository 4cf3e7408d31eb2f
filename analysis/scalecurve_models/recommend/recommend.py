"""Which worker count is fastest, cheapest, or best within a limit, and how certain that is.

Every count's time and cost are simulated (``recommend.candidates``). The count with the lowest median is recommended;
its probability is the share of simulations in which it wins, and a caveat names what keeps it from being certain. With
only two measured counts no model was tested: another count is recommended only if it beats both in 95 % of all the
ways in which the loss may continue, otherwise the better of the two.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import believable, scaling, set_aside_note
from scalecurve.features.accuracy.results import training
from scalecurve.features.accuracy.results.critical_batch import SeriesCriticalBatch, critical_batches
from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.experiment import Cost
from scalecurve_api.text import count
from scalecurve_models.comparison.compare_models import SeriesComparison, compare_models, idle_worker_notes
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.learning_curves.fit import LearningFit, fit_learning
from scalecurve_models.recommend.candidates import Candidate, Objective, series_candidates
from scalecurve_models.recommend.optimum import Goal, find_optimum
from scalecurve_models.recommend.recommendation import Recommendation, SeriesCandidates


def recommend(
    bundle: Bundle,
    *,
    workers: Sequence[int] = (),
    price: Cost | None = None,
    target: float | None = None,
    target_loss: float | None = None,
    deadline_s: float | None = None,
    budget: float | None = None,
    noise_scale: float | None = None,
    hold_out: Collection[int] = (),
    include_unproved: bool = False,
    workers_per_node: int | None = None,
) -> Recommendation:
    """Recommend worker counts among the measured ones and the further ``workers``, which are predicted or refused.

    ``workers_per_node`` is that of counts that were not measured, by default the largest that was.

    The work is the full training, one epoch or a million samples, depending on ``spec.cost`` (or ``price``); with a
    target accuracy or loss also the training up to it. ``deadline_s`` asks for the cheapest count within it, ``budget``
    for the fastest, and both for the cheapest that keeps both; without a price, cost and budget are in worker-hours.
    ``noise_scale`` replaces the gradient noise scale that the runs measured, by which samples in larger batches count
    for less. Measured counts in ``hold_out`` are treated as not measured, and so are points that do not count
    (``scalecurve.curves.doubts``) unless ``include_unproved`` is set.

    Raises FitError for limits, targets or counts that are not positive, or a held-out count that was not measured.
    """
    _check(workers, target, target_loss, deadline_s, budget, noise_scale)
    bundle = believable(bundle, include_unproved)
    curves = {curve.name: curve for curve in scaling([bundle]).series}
    learning = fit_learning(bundle, target_loss, target)
    learning = replace(learning, points=tuple(p for p in learning.points if p.point.workers not in hold_out))
    measured = {p.workers for curve in curves.values() for p in curve.measured}
    if unknown := sorted({*hold_out} - measured):
        known = ", ".join(map(str, sorted(measured))) or "none"
        raise FitError(f"recommend: cannot hold out {unknown[0]}: not measured (measured: {known})")
    if hold_out and not measured - {*hold_out}:
        raise FitError("recommend: every measured count is held out; nothing is left to recommend from")
    comparisons = compare_models(bundle, hold_out=hold_out, price=price, include_unproved=True)
    if not comparisons:
        raise FitError(f"recommend: {bundle.label} has no measured points to recommend from{set_aside_note(bundle)}")
    accuracy = bundle.trials[0].spec.measure.accuracy if bundle.trials else None
    if target is None and target_loss is None and accuracy:
        target = accuracy.target
    values = critical_batches(training([bundle]).points)
    scales = {each.series: each.scale for each in values}
    series: list[SeriesCandidates] = []
    for comparison in comparisons:
        name = comparison.series.name
        estimates = {
            p.workers: p.throughput
            for p in curves[name].points
            if p.throughput is not None and p.workers not in hold_out
        }
        objectives = [Objective(noise_scale=noise_scale if noise_scale is not None else scales.get(name))]
        if target is not None or target_loss is not None:
            objectives.append(Objective(target, target_loss))
        for objective in objectives:
            candidates = series_candidates(comparison, estimates, workers, objective, learning, workers_per_node)
            if objective.to_target and not learning.points and all(each.seconds is None for each in candidates):
                continue
            found = _optimize(
                comparison, candidates, objective.title or comparison.cost_basis.title, deadline_s, budget
            )
            found = _add_single_run_caveat(found) if any(e.repetitions == 1 for e in estimates.values()) else found
            held = _sessions(estimates.values())
            series.append(replace(found, optima=tuple(replace(each, sessions=held) for each in found.optima)))
    notes = [*_notes(series, learning, noise_scale, values), *idle_worker_notes(comparisons, workers)]
    return Recommendation(bundle.label, tuple(series), tuple(notes), values)


def _check(workers: Sequence[int], *limits: float | None) -> None:
    if any(n < 1 for n in workers):
        raise FitError(f"recommend: worker counts must be at least 1, got {min(workers)}")
    for name, value in zip(("target", "target loss", "deadline", "budget", "noise scale"), limits, strict=True):
        if value is not None and not 0 < value < float("inf"):
            raise FitError(f"recommend: {name} must be a finite positive number, got {value:g}")
    if limits[0] is not None and limits[0] >= 1:
        raise FitError(f"recommend: target accuracy must be between 0 and 1, got {limits[0]:g}")


def _optimize(
    comparison: SeriesComparison,
    candidates: tuple[Candidate, ...],
    scope: str,
    deadline_s: float | None,
    budget: float | None,
) -> SeriesCandidates:
    usable = [candidate for candidate in candidates if candidate.seconds is not None]
    name, currency = comparison.series.name, comparison.cost_basis.currency or "worker-hours"
    goals = [Goal("fastest", "seconds"), Goal("cheapest", "cost")]
    if deadline_s is not None:
        goals.append(Goal(f"cheapest within {formatting.seconds(deadline_s)}", "cost", (("seconds", deadline_s),)))
    if budget is not None:
        goals.append(Goal(f"fastest within {formatting.number(budget)} {currency}", "seconds", (("cost", budget),)))
    if deadline_s is not None and budget is not None:
        both = f"cheapest within {formatting.seconds(deadline_s)} and {formatting.number(budget)} {currency}"
        goals.append(Goal(both, "cost", (("seconds", deadline_s), ("cost", budget))))
    optima = tuple(find_optimum(name, scope, goal, usable, candidates) for goal in goals)
    return SeriesCandidates(name, scope, currency, candidates, optima)


def _sessions(estimates: Collection[Estimate]) -> str:
    """What the probabilities hold for: another day, or another machine, may differ by more than repetitions do."""
    fewest = min((estimate.sessions for estimate in estimates), default=1)
    return "in this session" if fewest <= 1 else f"over {count(fewest, 'session')}"


def _add_single_run_caveat(series: SeriesCandidates) -> SeriesCandidates:
    """With a single run of a point, the probabilities reflect only how steady that run was."""
    note = "one repetition only, so run-to-run variation is unknown"
    optima = (replace(o, caveat="; ".join(part for part in (o.caveat, note) if part)) for o in series.optima)
    return replace(series, optima=tuple(optima))


def _notes(
    series: Sequence[SeriesCandidates],
    learning: LearningFit,
    noise_scale: float | None,
    values: Sequence[SeriesCriticalBatch],
) -> list[str]:
    notes = [
        "Probability is the share of simulations in which a count wins; simulations sample the uncertainty of the "
        "measurements and the models, not that between sessions unless several were measured. No more than the 95 % of "
        "their intervals is claimed."
    ]
    if any(each.currency == "worker-hours" for each in series):
        notes.append("No price is known, so cost is in worker-hours; set cost.perWorkerHour or --per-worker-hour.")
    if noise_scale is not None:
        notes.append(
            f"Samples in larger batches count for less (gradient noise scale {formatting.number(noise_scale)})."
        )
    elif any(each.scale is not None for each in values):
        notes.append("Samples in larger batches count for less, by the gradient noise scale measured in each series.")
    notes += [f"{problem.file}: {problem.what}" for problem in learning.problems]
    unusable = [candidate for each in series for candidate in each.candidates if candidate.reason]
    return notes + list(dict.fromkeys(f"{count(each.workers, 'worker')}: {each.reason}" for each in unusable))
