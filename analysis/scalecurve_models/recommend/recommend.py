"""Which worker count is the fastest, the cheapest, or the best within a limit, and how sure that is.

Answers come from draws of every count's time and cost (``predict.choices``): the count with the least median is
recommended, the share of draws in which it wins is how sure that is, and what keeps it from being sure is said. Where
two counts alone were run no model was tested: another count is recommended only if it beats both in 95 % of all the
ways in which the loss may go on, and else the better of the two.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import scaling
from scalecurve.render import formatting as spelling
from scalecurve.training_results import training
from scalecurve.training_results.critical_batch import Worth, worth
from scalecurve_api.spec.experiment import Cost
from scalecurve_models.comparison.compare_models import SeriesBeside, beside, without_a_sample
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.learning_curves.fit import Learning, learning
from scalecurve_models.recommend.candidates import Choice, Question, choices
from scalecurve_models.recommend.optimum import Goal, answer_of
from scalecurve_models.recommend.recommendation import Recommendation, SeriesChoices


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
    level: float = 0.95,
) -> Recommendation:
    """Recommend worker counts among the measured ones and the further ``workers``, which models predict.

    Work is the whole training, an epoch or a million samples, as ``spec.cost`` (or ``price``) says; with a target
    accuracy or loss also the way there. ``deadline_s`` and ``budget`` ask for the cheapest and the fastest count that
    keeps them; without a price cost is in worker-hours, and so is the budget. ``noise_scale`` weighs samples of larger
    batches by the gradient noise scale, instead of by the one that a series' own runs measured.
    ``hold_out`` are measured counts that are treated as if they had not been.

    Raises:
        FitError: for limits, targets or counts that are not positive, or a count to hold out that was not measured.
    """
    _check(workers, target, target_loss, deadline_s, budget, noise_scale)
    curves = scaling([bundle], level).series
    learnt = learning(bundle, target_loss, target)
    learnt = replace(learnt, points=tuple(p for p in learnt.points if p.point.workers not in hold_out))
    measured = {p.workers for curve in curves for p in curve.measured}
    if unknown := sorted({*hold_out} - measured):
        known = ", ".join(map(str, sorted(measured))) or "none"
        raise FitError(f"recommend: hold out {unknown[0]}: it was not measured; measured: {known}")
    if hold_out and not measured - {*hold_out}:
        raise FitError("recommend: every measured count is held out: nothing is left to recommend from")
    if target is None and target_loss is None:
        target = _own_target(bundle)
    questions = [Question()]
    if target is not None or target_loss is not None:
        questions.append(Question(target, target_loss))
    values = worth(training([bundle], level).points)
    scales = {each.series: each.scale for each in values}
    out = []
    predicted = beside(bundle, hold_out=hold_out, price=price, level=level)
    if not predicted:
        raise FitError(f"recommend: nothing was measured in {bundle.label}: there is nothing to recommend from")
    for found in predicted:
        result = next(curve for curve in curves if curve.name == found.series.name)
        estimates = {
            p.workers: p.throughput for p in result.points if p.throughput is not None and p.workers not in hold_out
        }
        own = noise_scale if noise_scale is not None else scales.get(found.series.name)
        for asked in questions:
            question = asked if asked.to_target else replace(asked, noise_scale=own)
            made = choices(found, estimates, workers, question, learnt)
            if question.to_target and not any(choice.seconds is not None for choice in made) and not learnt.points:
                continue
            answered = _answered(found, made, _what(found, question), deadline_s, budget)
            once = [n for n, estimate in estimates.items() if estimate.repetitions == 1]
            out.append(_unrepeated(answered) if once else answered)
    notes = [*_notes(out, learnt, noise_scale, values), *without_a_sample(predicted, workers)]
    return Recommendation(bundle.label, tuple(out), tuple(notes), values)


def _check(workers: Sequence[int], *limits: float | None) -> None:
    if any(count < 1 for count in workers):
        raise FitError(f"recommend: worker counts must be at least 1, given {min(workers)}")
    for name, value in zip(("target", "target loss", "deadline", "budget", "noise scale"), limits, strict=True):
        if value is not None and not 0 < value < float("inf"):
            raise FitError(f"recommend: {name} must be a finite positive number, given {value:g}")
    if limits[0] is not None and limits[0] >= 1:
        raise FitError(f"recommend: a target accuracy lies between 0 and 1, given {limits[0]:g}")


def _own_target(bundle: Bundle) -> float | None:
    accuracy = bundle.trials[0].spec.measure.accuracy if bundle.trials else None
    return accuracy.target if accuracy else None


def _what(found: SeriesBeside, question: Question) -> str:
    if question.target_loss is not None:
        return f"to a loss of {question.target_loss:g}"
    if question.target is not None:
        return f"to an accuracy of {question.target:g}"
    return found.work.title


def _answered(
    found: SeriesBeside, made: tuple[Choice, ...], what: str, deadline_s: float | None, budget: float | None
) -> SeriesChoices:
    known = [choice for choice in made if choice.seconds is not None]
    currency = found.work.currency or "worker-hours"
    ask = [Goal("fastest", "seconds"), Goal("cheapest", "cost")]
    if deadline_s is not None:
        ask.append(Goal(f"cheapest within {spelling.seconds(deadline_s)}", "cost", "seconds", deadline_s))
    if budget is not None:
        ask.append(Goal(f"fastest for {spelling.number(budget)} {currency}", "seconds", "cost", budget))
    answers = tuple(answer_of(found.series.name, what, goal, known, made) for goal in ask)
    return SeriesChoices(found.series.name, what, currency, made, answers)


def _unrepeated(found: SeriesChoices) -> SeriesChoices:
    """Chances from a single run are of how steady it was: each answer says so."""
    said = "with one repetition, nothing says how another run would differ"
    answers = (replace(a, decides="; ".join(part for part in (a.decides, said) if part)) for a in found.answers)
    return replace(found, answers=tuple(answers))


def _notes(
    found: Sequence[SeriesChoices], learnt: Learning, noise_scale: float | None, values: Sequence[Worth]
) -> list[str]:
    notes = [
        "A chance is the share of draws, of all that the measurements and models leave open, in which a count wins."
    ]
    if any(each.currency == "worker-hours" for each in found):
        notes.append("No price is known, so cost is in worker-hours: give cost.perWorkerHour or --per-worker-hour.")
    if noise_scale is not None:
        notes.append(
            f"A sample in a larger batch is worth less, by a gradient noise scale of {spelling.number(noise_scale)}."
        )
    elif any(each.scale is not None for each in values):
        notes.append("A sample in a larger batch is worth less, by the gradient noise scale that the series measured.")
    notes += [f"{problem.file}: {problem.what}" for problem in learnt.problems]
    unsure = [choice for each in found for choice in each.choices if choice.why]
    notes += list(dict.fromkeys(f"{choice.workers} workers: {choice.why}" for choice in unsure))
    return notes
