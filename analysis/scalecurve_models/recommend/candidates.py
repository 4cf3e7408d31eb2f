"""Time and cost of a job at every worker count, as simulations of everything the measurements leave uncertain.

A measured count is drawn from its own interval. A count that was not measured is drawn from the models that predicted
left-out points about as well as the best one, each with its interval for a new run: where models disagree, so do the
draws. Two measured counts test no model; then the draws cover every way in which the loss may continue. The same draw
of a point serves all questions, so that "cheaper" and "faster" go together as they do in one run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.statistics import Estimate, Method
from scalecurve.statistics.intervals import student_quantile
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.comparison.compare_models import SeriesComparison
from scalecurve_models.comparison.series_models import SeriesModel, SeriesPrediction
from scalecurve_models.fitting.least_squares import Array, Prediction
from scalecurve_models.goodput.noise import statistical_efficiency
from scalecurve_models.learning_curves.fit import LearningFit, PointLearningFit
from scalecurve_models.recommend.extrapolation_prior import draw_rates

DRAWS = 4000
LEVEL = 0.95
_ALIKE = 2.0
_SLACK = 0.01
"""A model is plausible when its held-out error is at most twice the best one's plus a hundredth."""


@dataclass(frozen=True)
class Candidate:
    """One worker count: draws of seconds and of cost (worker-hours without a price), None where both are unknown.

    ``basis`` is "measured" or names the models that predict it; ``reason`` says why the count is unusable. ``tested``
    is False where too few counts were measured to test a model; ``beyond`` is the multiple of the largest measured
    count.
    """

    workers: int
    basis: str
    seconds: Array | None
    cost: Array | None
    reason: str = ""
    tested: bool = True
    beyond: float = 1.0

    @property
    def measured(self) -> bool:
        return self.basis == MEASURED


MEASURED, EXTRAPOLATED = "measured", "extrapolation prior"


@dataclass(frozen=True)
class Objective:
    """What the time and cost are for: a target accuracy or loss, or an amount of work."""

    target: float | None = None
    target_loss: float | None = None
    noise_scale: float | None = None

    @property
    def to_target(self) -> bool:
        return self.target is not None or self.target_loss is not None


def series_candidates(
    comparison: SeriesComparison,
    estimates: dict[int, Estimate],
    workers: Sequence[int],
    objective: Objective,
    learning: LearningFit | None,
) -> tuple[Candidate, ...]:
    """Every measured count of a curve and every further one of ``workers`` that the batch allows, ascending."""
    series = comparison.series
    counts = sorted({*series.workers, *workers} - {*series.exceeding_batch(workers)})
    return tuple(_candidate(comparison, estimates, n, objective, learning) for n in counts)


def _candidate(
    comparison: SeriesComparison,
    estimates: dict[int, Estimate],
    workers: int,
    objective: Objective,
    learning: LearningFit | None,
) -> Candidate:
    rng = _generator(comparison, workers)
    beyond = workers / max(estimates, default=workers)
    tested = True
    if workers in estimates:
        rates, basis = _measured(estimates[workers], rng), MEASURED
    elif len(estimates) == 2:
        tested = False
        (base, base_estimate), (other, other_estimate) = sorted(estimates.items())
        # The same draws that the measured counts have as candidates themselves.
        at_base, at_other = (
            _measured(each, _generator(comparison, n)) for n, each in ((base, base_estimate), (other, other_estimate))
        )
        rates, basis = draw_rates(base, at_base, other, at_other, workers, rng), EXTRAPOLATED
    else:
        drawn = _predicted(comparison.prediction, workers, rng)
        if drawn is None:
            return Candidate(workers, "", None, None, "no model predicts this count; too few were measured")
        rates, basis = drawn
    if objective.to_target:
        seconds, why = _to_target(comparison, workers, rates, objective, learning, rng)
    else:
        progress = _progress(comparison, workers, objective)
        seconds, why = comparison.cost_basis.samples / (rates * progress), ""
    if seconds is None:
        return Candidate(workers, basis, None, None, why)
    hours = seconds / 3600 * workers
    price = comparison.cost_basis.per_worker_hour
    cost = hours * price if price is not None else hours
    return Candidate(workers, basis, seconds, cost, tested=tested, beyond=beyond)


def _generator(comparison: SeriesComparison, workers: int) -> np.random.Generator:
    return np.random.default_rng([workers, len(comparison.series.name)])


def _measured(estimate: Estimate, rng: np.random.Generator) -> Array:
    rates: Array = estimate.value * np.exp(_spread(estimate, rng))
    return rates


def _spread(estimate: Estimate, rng: np.random.Generator) -> Array:
    """Draws of the log of a measured value, by the Student's t behind its interval."""
    if estimate.low is None or estimate.high is None or not 0 < estimate.low < estimate.high < math.inf:
        return np.zeros(DRAWS)
    degrees = max(1, estimate.repetitions - 1) if estimate.method is Method.REPETITIONS else 30
    scale = math.log(estimate.high / estimate.low) / 2 / student_quantile(degrees, estimate.level)
    drawn: Array = scale * rng.standard_t(degrees, DRAWS)
    return drawn


def plausible_models(prediction: SeriesPrediction) -> tuple[SeriesModel, ...]:
    """The best model of a curve and those nearly as good at left-out points."""
    best = prediction.best
    if best is None or best.held_out_mean is None:
        return ()
    limit = _ALIKE * best.held_out_mean + _SLACK
    out: dict[tuple[float, ...], SeriesModel] = {}
    for model in (best, *prediction.models):
        good = model.held_out_mean is not None and model.held_out_mean <= limit
        if good and model.predict is not None and model.fitted is not None:
            # Two models with one curve (usl and ring under strong scaling) count once.
            out.setdefault(tuple(round(rate, 9) for rate in model.fitted.values()), model)
    return tuple(out.values())


def _predicted(prediction: SeriesPrediction, workers: int, rng: np.random.Generator) -> tuple[Array, str] | None:
    """Draws of samples/s at a count that was not measured: a mixture of the plausible models."""
    models = [(model, model.predict(workers)) for model in plausible_models(prediction) if model.predict is not None]
    # A model with an unbounded interval here says nothing.
    models = [(model, at) for model, at in models if at.low is None or at.bounded]
    if not models:
        return None
    which = rng.integers(0, len(models), DRAWS)
    rates = np.zeros(DRAWS)
    for index, (model, at) in enumerate(models):
        here = which == index
        rates[here] = _of_prediction(at, model.held_out_mean or 0.0, int(here.sum()), rng)
    return rates, ", ".join(model.name for model, _ in models)


def _of_prediction(prediction: Prediction, held_out: float, count: int, rng: np.random.Generator) -> Array:
    """Draws by the interval, or by the left-out error where there is none; never tighter than that error."""
    scale = held_out
    if prediction.low is not None and prediction.high is not None:
        scale = max(scale, math.log(prediction.high / prediction.low) / 2 / student_quantile(30, LEVEL))
    drawn: Array = prediction.value * np.exp(scale * rng.standard_normal(count))
    return drawn


def _progress(comparison: SeriesComparison, workers: int, objective: Objective) -> float:
    """Progress per sample relative to the baseline's batch, by the gradient noise scale; 1 without one."""
    if objective.noise_scale is None:
        return 1.0
    series = comparison.series
    base = series.batch_at(series.points[0].workers)
    return statistical_efficiency(objective.noise_scale, base, series.batch_at(workers))


def _to_target(
    comparison: SeriesComparison,
    workers: int,
    rates: Array,
    objective: Objective,
    learning: LearningFit | None,
    rng: np.random.Generator,
) -> tuple[Array | None, str]:
    """Draws of seconds to the target: from the runs themselves, else steps on the loss curve at the drawn speed."""
    series = comparison.series
    points = [p for p in (learning.points if learning else ()) if p.point.series == series.name]
    here = next((p for p in points if p.point.workers == workers), None)
    if here is not None and here.reached_s is not None:
        return here.reached_s * np.exp(_runs_spread(here, objective, rng)), ""
    alike = [here] if here is not None else [p for p in points if series.mode is Mode.strong]
    curve = next((p for p in alike if p.reach is not None and p.reach.steps is not None), None)
    if curve is None or curve.reach is None or curve.reach.steps is None:
        return None, _why_not(here, points, series.mode)
    steps = curve.reach.steps * np.exp(_reach_spread(curve, rng))
    return steps * series.batch_at(workers) / rates, ""


def _why_not(here: PointLearningFit | None, points: Sequence[PointLearningFit], mode: Mode) -> str:
    if here is not None:
        return here.reach.why if here.reach and here.reach.why else here.failure or "no run recorded the target metric"
    if not points:
        return "no run of this series recorded losses"
    if mode is Mode.weak:
        return "under weak scaling the batch differs, so this count needs a training run of its own"
    return "no run of this series shows when the target is reached"


def _runs_spread(here: PointLearningFit, objective: Objective, rng: np.random.Generator) -> Array:
    """Spread of the mean of the runs' logs; zero for a single run, which says nothing about it."""
    logs = [
        math.log(float(curve.seconds[at]))
        for curve in here.curves
        if curve.seconds is not None and (at := curve.first_at(objective.target_loss, objective.target)) is not None
    ]
    if len(logs) < 2:
        return np.zeros(DRAWS)
    drawn: Array = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) * rng.standard_t(len(logs) - 1, DRAWS)
    return drawn


def _reach_spread(curve: PointLearningFit, rng: np.random.Generator) -> Array:
    reach = curve.reach
    if reach is None or not reach.low or not reach.high or not reach.steps or math.isinf(reach.high):
        return np.zeros(DRAWS)
    scale = math.log(reach.high / max(reach.low, 1e-9)) / 2 / student_quantile(30, LEVEL)
    drawn: Array = scale * rng.standard_normal(DRAWS)
    return drawn
