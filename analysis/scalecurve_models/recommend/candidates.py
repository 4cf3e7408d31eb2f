"""Time and cost of a job at every worker count, as simulations of everything the measurements leave uncertain.

A measured count is drawn from its own interval. A count that was not measured is drawn from the distribution that
``predict`` shows for it (``laws.extrapolation``), or is refused as there. Two measured counts test no model; then the
draws cover every way in which the loss may continue on as many nodes. The same draw of a point serves all questions, so
that "cheaper" and "faster" go together as they do in one run.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.intervals import LARGEST_LOG
from scalecurve.statistics.spread import student_quantile
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.comparison.compare_models import SeriesComparison
from scalecurve_models.fitting.least_squares import LEVEL, Array
from scalecurve_models.goodput.noise import statistical_efficiency
from scalecurve_models.laws.extrapolation import extrapolate
from scalecurve_models.laws.normal_form import CurvePoint
from scalecurve_models.learning_curves.fit import LearningFit, PointLearningFit

DRAWS = 4000
_LARGEST = 0.95
"""The largest probability, of measured counts too: the level of the intervals that the draws are of, and no more."""
_TERMS: tuple[Callable[[Array | float], Array | float], ...] = (
    lambda n: 1 - 1 / n,
    lambda n: n - 1,
    lambda n: n * (n - 1),
)
_ALONE = 0.5  # share of the draws that follow one term
_LEAST = 1e-9


@dataclass(frozen=True)
class Candidate:
    """One worker count: draws of seconds and of cost (worker-hours without a price), None where both are unknown.

    ``basis`` is "measured" or names the models that predict it; ``reason`` says why the count is unusable. ``tested``
    is False where too few counts were measured to test a model; ``beyond`` is the multiple of the largest measured
    count; ``certainty`` the largest probability that its calibration supports.
    """

    workers: int
    basis: str
    seconds: Array | None
    cost: Array | None
    reason: str = ""
    tested: bool = True
    beyond: float = 1.0
    certainty: float = 1.0

    @property
    def measured(self) -> bool:
        return self.basis == MEASURED


MEASURED, EXTRAPOLATED, NORMAL_FORMS = "measured", "extrapolation prior", "normal forms"


@dataclass(frozen=True)
class Objective:
    """What the time and cost are for: a target accuracy or loss, or an amount of work."""

    target: float | None = None
    target_loss: float | None = None
    noise_scale: float | None = None

    @property
    def to_target(self) -> bool:
        return self.target is not None or self.target_loss is not None

    @property
    def title(self) -> str:
        if self.target_loss is not None:
            return f"training to a loss of {self.target_loss:g}"
        return f"training to an accuracy of {self.target:g}" if self.target is not None else ""


def series_candidates(
    comparison: SeriesComparison,
    estimates: dict[int, Estimate],
    workers: Sequence[int],
    objective: Objective,
    learning: LearningFit,
    workers_per_node: int | None = None,
) -> tuple[Candidate, ...]:
    """Draw every measured count of a curve and every further one of ``workers`` that the batch allows, ascending."""
    counts = comparison.series.counts_with(workers)
    return tuple(_candidate(comparison, estimates, n, objective, learning, workers_per_node) for n in counts)


def _candidate(
    comparison: SeriesComparison,
    estimates: dict[int, Estimate],
    workers: int,
    objective: Objective,
    learning: LearningFit,
    workers_per_node: int | None,
) -> Candidate:
    rng, series = _generator(comparison, workers), comparison.series
    nodes = -(-workers // workers_per_node) if workers_per_node else series.nodes_at(workers)
    beyond = workers / max(estimates, default=workers)
    tested, certainty = True, _LARGEST
    if workers in estimates:
        rates, basis = _draw_estimate(estimates[workers], rng), MEASURED
    elif len(estimates) == 2 and nodes <= max(series.nodes_at(n) for n in estimates):
        tested = False
        (base, base_estimate), (other, other_estimate) = sorted(estimates.items())
        # The same draws that the measured counts have as candidates themselves.
        at_base, at_other = (
            _draw_estimate(each, _generator(comparison, n))
            for n, each in ((base, base_estimate), (other, other_estimate))
        )
        rates, basis = draw_rates(base, at_base, other, at_other, workers, rng), EXTRAPOLATED
    else:
        at = extrapolate(
            [CurvePoint(n, each.value, series.nodes_at(n)) for n, each in estimates.items()],
            workers,
            nodes=nodes,
        )
        if at.throughput is None:
            return Candidate(workers, "", None, None, at.reason)
        rates, basis, certainty = at.draws(DRAWS, rng), NORMAL_FORMS, at.certainty
    if objective.to_target:
        seconds, why = _time_to_target(comparison, workers, rates, objective, learning, rng)
    else:
        progress, why = 1.0, ""
        if objective.noise_scale is not None:
            # Of a sample, relative to one in the baseline's batch.
            base_batch = series.batch_at(series.points[0].workers)
            progress = statistical_efficiency(objective.noise_scale, base_batch, series.batch_at(workers))
        seconds = comparison.cost_basis.samples / (rates * progress)
    if seconds is None:
        return Candidate(workers, basis, None, None, why)
    hours = seconds / 3600 * workers
    price = comparison.cost_basis.per_worker_hour
    cost = hours * price if price is not None else hours
    return Candidate(workers, basis, seconds, cost, tested=tested, beyond=beyond, certainty=certainty)


def draw_rates(
    baseline: int, base_rates: Array, other: int, other_rates: Array, workers: int, rng: np.random.Generator
) -> Array:
    """Draw samples/s at ``workers`` from draws at two measured counts, ``baseline`` < ``other``.

    One count beside the baseline tells how much was lost there, not how the loss continues: any law with one parameter
    passes through it exactly. The named laws are the corners of what is possible: the loss stays constant (Gustafson),
    grows with N (Amdahl, the latency of a ring) or with N² (what usl adds). Half of the draws follow one of these, half
    mix them in every proportion, so that a prediction is as wide as the measurements leave it.

    With e(N) = N X(1)/X(N) = 1 + θ Σ w t(N), w one of the terms or any mixture, and θ such that the curve passes
    through both counts. A better than ideal speed-up between them is not extrapolated.
    """
    draws, ways = len(other_rates), len(_TERMS)
    alone = np.eye(ways)[rng.integers(0, ways, draws)]
    shares = np.where(rng.random((draws, 1)) < _ALONE, alone, rng.dirichlet(np.ones(ways), draws))
    here, at_base = (
        sum(shares[:, i] * term(float(n)) / term(float(other)) for i, term in enumerate(_TERMS))
        for n in (workers, baseline)
    )
    lost = (other / baseline) / (other_rates / base_rates)
    theta = np.maximum(lost - 1, 0) / np.maximum(1 - lost * at_base, _LEAST)
    rates: Array = other_rates * workers / other * (1 + theta) / (1 + theta * here)
    return rates


def _generator(comparison: SeriesComparison, workers: int) -> np.random.Generator:
    return np.random.default_rng([workers, len(comparison.series.name)])


def _draw_estimate(estimate: Estimate, rng: np.random.Generator) -> Array:
    """Draws of a measured value, by the Student's t behind its interval; over magnitudes where that is not known."""
    if estimate.unknown and estimate.ends is None:
        return np.asarray(estimate.value * 10 ** rng.standard_normal(DRAWS))
    drawn = np.full(DRAWS, estimate.value)
    if estimate.ends is not None and 0 < estimate.ends[0] < estimate.ends[1] < math.inf:
        clusters = {Method.REPETITIONS: estimate.repetitions, Method.SESSIONS: estimate.sessions}
        if estimate.unknown:
            clusters[Method.UNKNOWN] = estimate.sessions if estimate.sessions > 1 else estimate.repetitions
        degrees = max(1, clusters.get(estimate.method, 31) - 1)
        scale = math.log(estimate.ends[1] / estimate.ends[0]) / 2 / student_quantile(degrees, estimate.level)
        drawn = estimate.value * _factors(scale, degrees, rng)
    return drawn


def _factors(scale: float, degrees: int, rng: np.random.Generator) -> Array:
    """Draws of e to the ``scale`` times Student's t, whose far ends no number holds."""
    drawn: Array = np.exp(np.clip(scale * rng.standard_t(degrees, DRAWS), -LARGEST_LOG, LARGEST_LOG))
    return drawn


def _time_to_target(
    comparison: SeriesComparison,
    workers: int,
    rates: Array,
    objective: Objective,
    learning: LearningFit,
    rng: np.random.Generator,
) -> tuple[Array | None, str]:
    """Draws of seconds to the target: from the runs themselves, else steps on the loss curve at the drawn speed."""
    series = comparison.series
    points = [point for point in learning.points if point.point.series == series.name]
    here = next((p for p in points if p.point.workers == workers), None)
    if here is not None and here.reached_s is not None:
        return here.reached_s * _runs_spread(here, objective, rng), ""
    alike = [here] if here is not None else [p for p in points if series.mode is Mode.strong]
    curve = next((p for p in alike if p.reach is not None and p.reach.steps is not None), None)
    if curve is None or curve.reach is None or curve.reach.steps is None:
        return None, _why_not(here, points, series.mode)
    steps, low, high = np.full(DRAWS, curve.reach.steps), curve.reach.low, curve.reach.high
    if low and high and curve.reach.steps and math.isfinite(high):
        scale = math.log(high / max(low, 1e-9)) / 2 / student_quantile(30, LEVEL)
        steps = steps * np.exp(scale * rng.standard_normal(DRAWS))
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
    """Factors by the spread of the mean of the runs' logs; one for a single run, which says nothing about it."""
    logs = [
        math.log(float(curve.seconds[at]))
        for curve in here.curves
        if curve.seconds is not None and (at := curve.first_at(objective.target_loss, objective.target)) is not None
    ]
    if len(logs) < 2:
        return np.ones(DRAWS)
    return _factors(float(np.std(logs, ddof=1)) / math.sqrt(len(logs)), len(logs) - 1, rng)
