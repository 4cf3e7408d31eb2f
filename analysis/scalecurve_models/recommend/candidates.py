"""How long a job takes and what it costs at every worker count, as draws: what is known, with all that is not.

A measured count is drawn from its own interval. A count that was not measured is drawn from the models that predicted
left-out points about as well as the best one, each with its interval for a new run: where models disagree, the draws
do. Two measured counts test no model; then every way in which the loss between them may go on is drawn. The same draw
of a point serves all questions, so that "cheaper" and "faster" go together as they do in one run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.statistics import Estimate, Method
from scalecurve.statistics.intervals import student_quantile
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.comparison.compare_models import SeriesBeside
from scalecurve_models.comparison.series_models import SeriesModel, SeriesPrediction
from scalecurve_models.fitting.least_squares import Array, Prediction
from scalecurve_models.goodput.noise import noise_of_scale
from scalecurve_models.learning_curves.fit import Learning, PointLearning
from scalecurve_models.recommend.extrapolation_prior import open_rates

DRAWS = 4000
LEVEL = 0.95
_ALIKE = 2.0
_SLACK = 0.01
"""A model whose held-out error is at most twice the best one's plus a hundredth is believed as well."""


@dataclass(frozen=True)
class Choice:
    """One worker count: draws of seconds and of cost (worker-hours without a price), None where it cannot be said.

    ``basis`` is measured, or the models that predict it; ``why`` says why there is nothing to choose here. ``tested``
    is False where the measured counts are too few to have tested any model; ``beyond`` is how many times the largest
    measured count this one is.
    """

    workers: int
    basis: str
    seconds: Array | None
    cost: Array | None
    why: str = ""
    tested: bool = True
    beyond: float = 1.0

    @property
    def measured(self) -> bool:
        return self.basis == MEASURED


MEASURED = "measured"
OPEN = "open"
"""The basis of a count that two measured ones leave open."""


@dataclass(frozen=True)
class Question:
    """What the time and cost are of: a target (with its learning), or an amount of work."""

    target: float | None = None
    target_loss: float | None = None
    noise_scale: float | None = None

    @property
    def to_target(self) -> bool:
        return self.target is not None or self.target_loss is not None


def choices(
    found: SeriesBeside,
    estimates: dict[int, Estimate],
    workers: Sequence[int],
    question: Question,
    learnt: Learning | None,
) -> tuple[Choice, ...]:
    """Every measured count of a curve and every further one of ``workers`` that there can be, ascending."""
    series = found.series
    counts = sorted({*series.workers, *workers} - {*series.too_many(workers)})
    return tuple(_choice(found, estimates, n, question, learnt) for n in counts)


def _choice(
    found: SeriesBeside, estimates: dict[int, Estimate], workers: int, question: Question, learnt: Learning | None
) -> Choice:
    rng = _generator(found, workers)
    beyond = workers / max(estimates, default=workers)
    tested = True
    if workers in estimates:
        rates, basis = _measured(estimates[workers], rng), MEASURED
    elif len(estimates) == 2:
        tested = False
        (base, base_estimate), (other, other_estimate) = sorted(estimates.items())
        # The measured counts as they are drawn for themselves: the same draw of a point serves all questions.
        at_base, at_other = (
            _measured(each, _generator(found, n)) for n, each in ((base, base_estimate), (other, other_estimate))
        )
        rates, basis = open_rates(base, at_base, other, at_other, workers, rng), OPEN
    else:
        drawn = _predicted(found.prediction, workers, rng)
        if drawn is None:
            return Choice(workers, "", None, None, "no model predicts this count: too few were measured")
        rates, basis = drawn
    if question.to_target:
        seconds, why = _to_target(found, workers, rates, question, learnt, rng)
    else:
        progress = _progress(found, workers, question)
        seconds, why = found.work.samples / (rates * progress), ""
    if seconds is None:
        return Choice(workers, basis, None, None, why)
    hours = seconds / 3600 * workers
    price = found.work.per_worker_hour
    cost = hours * price if price is not None else hours
    return Choice(workers, basis, seconds, cost, tested=tested, beyond=beyond)


def _generator(found: SeriesBeside, workers: int) -> np.random.Generator:
    return np.random.default_rng([workers, len(found.series.name)])


def _measured(estimate: Estimate, rng: np.random.Generator) -> Array:
    rates: Array = estimate.value * np.exp(_spread(estimate, rng))
    return rates


def _spread(estimate: Estimate, rng: np.random.Generator) -> Array:
    """Draws of the log of a measured value about it, by Student's t as its interval was made."""
    if estimate.low is None or estimate.high is None or not 0 < estimate.low < estimate.high < math.inf:
        return np.zeros(DRAWS)
    degrees = max(1, estimate.repetitions - 1) if estimate.method is Method.REPETITIONS else 30
    scale = math.log(estimate.high / estimate.low) / 2 / student_quantile(degrees, estimate.level)
    drawn: Array = scale * rng.standard_t(degrees, DRAWS)
    return drawn


def believed(prediction: SeriesPrediction) -> tuple[SeriesModel, ...]:
    """The best model of a curve and those that were hardly worse at left-out points."""
    best = prediction.best
    if best is None or best.held_out_mean is None:
        return ()
    limit = _ALIKE * best.held_out_mean + _SLACK
    out: dict[tuple[float, ...], SeriesModel] = {}
    for model in (best, *prediction.models):
        good = model.held_out_mean is not None and model.held_out_mean <= limit
        if good and model.predict is not None and model.fitted is not None:
            # Two names for one curve (usl and ring under strong scaling) are one opinion.
            out.setdefault(tuple(round(rate, 9) for rate in model.fitted.values()), model)
    return tuple(out.values())


def _predicted(prediction: SeriesPrediction, workers: int, rng: np.random.Generator) -> tuple[Array, str] | None:
    """Draws of samples/s at a count that was not measured: a mixture of the models that are believed."""
    models = [(model, model.predict(workers)) for model in believed(prediction) if model.predict is not None]
    # A model whose interval has no end here has no opinion.
    models = [(model, found) for model, found in models if found.low is None or found.bounded]
    if not models:
        return None
    which = rng.integers(0, len(models), DRAWS)
    rates = np.zeros(DRAWS)
    for index, (model, found) in enumerate(models):
        here = which == index
        rates[here] = _of_prediction(found, model.held_out_mean or 0.0, int(here.sum()), rng)
    return rates, ", ".join(model.name for model, _ in models)


def _of_prediction(found: Prediction, held_out: float, count: int, rng: np.random.Generator) -> Array:
    """By its interval, or by its error at left-out points where there is none; never tighter than that error."""
    scale = held_out
    if found.low is not None and found.high is not None:
        scale = max(scale, math.log(found.high / found.low) / 2 / student_quantile(30, LEVEL))
    drawn: Array = found.value * np.exp(scale * rng.standard_normal(count))
    return drawn


def _progress(found: SeriesBeside, workers: int, question: Question) -> float:
    """The worth of a sample beside one in the baseline's batch, by the gradient noise scale; 1 without one."""
    if question.noise_scale is None:
        return 1.0
    series = found.series
    base = series.batch_at(series.points[0].workers)
    return noise_of_scale(question.noise_scale, base).efficiency(series.batch_at(workers))


def _to_target(
    found: SeriesBeside,
    workers: int,
    rates: Array,
    question: Question,
    learnt: Learning | None,
    rng: np.random.Generator,
) -> tuple[Array | None, str]:
    """Draws of seconds to the target: as the runs took, else steps by the loss curve over the drawn speed."""
    series = found.series
    points = [p for p in (learnt.points if learnt else ()) if p.point.series == series.name]
    here = next((p for p in points if p.point.workers == workers), None)
    if here is not None and here.reached_s is not None:
        return here.reached_s * np.exp(_runs_spread(here, question, rng)), ""
    alike = [here] if here is not None else [p for p in points if series.mode is Mode.strong]
    curve = next((p for p in alike if p.reach is not None and p.reach.steps is not None), None)
    if curve is None or curve.reach is None or curve.reach.steps is None:
        return None, _why_not(here, points, series.mode)
    steps = curve.reach.steps * np.exp(_reach_spread(curve, rng))
    return steps * series.batch_at(workers) / rates, ""


def _why_not(here: PointLearning | None, points: Sequence[PointLearning], mode: Mode) -> str:
    if here is not None:
        return here.reach.why if here.reach and here.reach.why else here.refusal or "no run recorded what was asked for"
    if not points:
        return "no run of this curve recorded losses"
    if mode is Mode.weak:
        return "another batch takes other steps: a weak point must have been trained itself"
    return "no run of this curve tells when the target is reached"


def _runs_spread(here: PointLearning, question: Question, rng: np.random.Generator) -> Array:
    """Of the mean of the runs' logs; nothing is known of it from a single run."""
    found = []
    for curve in here.curves:
        if curve.seconds is None:
            continue
        if question.target_loss is not None:
            there = curve.losses <= question.target_loss
        else:
            assert curve.accuracies is not None
            assert question.target is not None
            there = curve.accuracies >= question.target
        if there.any():
            found.append(math.log(float(curve.seconds[int(there.argmax())])))
    if len(found) < 2:
        return np.zeros(DRAWS)
    drawn: Array = float(np.std(found, ddof=1)) / math.sqrt(len(found)) * rng.standard_t(len(found) - 1, DRAWS)
    return drawn


def _reach_spread(curve: PointLearning, rng: np.random.Generator) -> Array:
    reach = curve.reach
    if reach is None or not reach.low or not reach.high or not reach.steps or math.isinf(reach.high):
        return np.zeros(DRAWS)
    scale = math.log(reach.high / max(reach.low, 1e-9)) / 2 / student_quantile(30, LEVEL)
    drawn: Array = scale * rng.standard_normal(DRAWS)
    return drawn
