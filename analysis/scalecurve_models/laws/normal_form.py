"""Every curve of the performance model normal form at once: a mixture weighted by how well each explains the points.

The time per sample of one worker is t(N) = c (1 + a f(N)) inside a node, with f(N) = N^i log2(N)^j - 1^i log2(1)^j as
in Extra-P (Calotoiu et al., SC 2013), and t = c (1 + a f(min(N, W)) + b g(K)) over K nodes of W workers, a model
segmented at the node boundary. No single form is selected: few points support many, and the one with the least error on
them extrapolates worst. No form is exact either: a curve drifts from it by a random walk over doublings of the workers,
as larger machines have further levels of network. c, a and b have normal priors, the relative noise and the drift
discrete ones, so that each form's posterior and evidence are exact (Bayesian linear regression), and the prediction is
a mixture of normal distributions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_models.fitting.least_squares import Array

INSIDE: tuple[tuple[float, int], ...] = (
    *((-1, 0), (0, 1), (0, 2), (0.25, 0), (1 / 3, 0), (0.5, 0), (0.5, 1)),
    *((2 / 3, 0), (0.75, 0), (1, 0), (1, 1), (1.5, 0), (2, 0)),
)
"""(i, j) of the terms N^i log2(N)^j inside a node, each scaled to 1 at 8 workers."""
STEP = (0.0, 0)
OVER: tuple[tuple[float, int], ...] = (STEP, (-2, 0), (-1, 0), (0, 1), (0.5, 0), (1, 0))
"""The same over nodes, each scaled to 1 at two nodes; the first is a step that only two nodes add."""
NOISE: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1)
"""Relative standard deviations of one measured point."""
DRIFT: tuple[float, ...] = (0.0, 0.01, 0.04)
"""Relative standard deviations by which a curve leaves its form with every doubling of the workers."""
SPREAD: tuple[tuple[float, float], ...] = tuple((noise, drift) for drift in DRIFT for noise in NOISE)
LOSS: tuple[float, ...] = (0.02, 0.08, 0.32)
"""Scales of the loss that 8 workers add inside a node, as a share of the time on one worker."""
STEP_LOSS: tuple[float, ...] = (0.05, 0.2, 0.8)
"""Scales of the loss that the second node adds."""
THROUGH = len(OVER)  # the index of a form that is not segmented: its term runs through all nodes, beside a step
_AT_WORKERS, _AT_NODES = 8.0, 2.0
_MEAN = 0.7  # of a scale: a loss is rarely a gain
_FREE = 0.5
_BISECTIONS = 32


@dataclass(frozen=True)
class NormalFormPrior:
    """Weights of the forms before a curve is seen: of each term and scale; those of a field sum to one.

    ``spread`` has one row for each scale of the loss, over the pairs of ``SPREAD``: what loses much is less steady.
    """

    inside: tuple[float, ...] = (1 / len(INSIDE),) * len(INSIDE)
    loss: tuple[float, ...] = (1 / len(LOSS),) * len(LOSS)
    over: tuple[float, ...] = (1 / (len(OVER) + 1),) * (len(OVER) + 1)
    step: tuple[float, ...] = (1 / len(STEP_LOSS),) * len(STEP_LOSS)
    spread: tuple[tuple[float, ...], ...] = ((1 / len(SPREAD),) * len(SPREAD),) * len(LOSS)


@dataclass(frozen=True)
class CurvePoint:
    """A measured worker count; ``throughput`` in samples/s over all workers, ``nodes`` None where not stated."""

    workers: int
    throughput: float
    nodes: int | None = None


@dataclass(frozen=True)
class Mixture:
    """A weighted mixture of normal distributions: seconds per sample of one worker.

    ``leading`` names the form with the most weight.
    """

    means: Array
    sds: Array
    weights: Array
    leading: str

    def quantile(self, share: float) -> float:
        """Find the quantile by bisection of the mixture's distribution function; positive."""
        from scipy.special import ndtr  # late for the sake of a quick start

        visible = self.weights > 1e-7
        means, sds, weights = self.means[visible], self.sds[visible], self.weights[visible]
        low, high = max(float((means - 8 * sds).min()), float(means.max()) * 1e-3), float((means + 8 * sds).max())
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = float((weights * ndtr((middle - means) / sds)).sum()) < share
            low, high = (middle, high) if below else (low, middle)
        return (low + high) / 2

    def log_density(self, seconds: float) -> float:
        """Compute the log density of log(seconds), for comparing priors by curves that they have not seen."""
        terms = np.exp(-0.5 * ((seconds - self.means) / self.sds) ** 2) / self.sds / np.sqrt(2 * np.pi)
        return float(np.log((self.weights * terms).sum() * seconds + 1e-300))


@dataclass(frozen=True)
class Forms:
    """All normal forms at some counts: ``terms`` (forms, counts, 2), means and deviations of their two coefficients.

    ``index`` (forms, 4) has the places in ``INSIDE``, ``LOSS``, ``OVER`` (or ``THROUGH``) and ``STEP_LOSS``; the last
    two are -1 where there is one node.
    """

    terms: Array
    means: Array
    sds: Array
    index: Array

    def log_weights(self, prior: NormalFormPrior) -> Array:
        """Return the log of the forms' prior weights, shape (spreads, forms)."""
        fields = (prior.inside, prior.loss, prior.over, prior.step)
        columns = zip(self.index.T, fields, strict=True)
        # -1 picks the one that is appended: no such term, no weight.
        of_forms = sum(np.log(np.array([*weights, 1.0]) + 1e-300)[column] for column, weights in columns)
        return np.asarray(of_forms + np.log(np.array(prior.spread).T + 1e-300)[:, self.index[:, 1]])

    def named(self, form: int) -> str:
        i, _, k, _ = self.index[form]
        inside = _name_term("N", *INSIDE[i])
        if k < 0:
            return inside
        return f"{inside} + step" if k == THROUGH else f"{inside} | {_name_term('K', *OVER[k])}"


@dataclass(frozen=True)
class Posteriors:
    """Each form at each spread, (spreads, forms): mean and variance at the new count, log evidence of the points."""

    forms: Forms
    scale: float
    means: Array
    variances: Array
    log_evidence: Array


def posteriors(points: Sequence[CurvePoint], workers: int, nodes: int | None) -> Posteriors:
    """Compute what every form makes of the points, before any prior weights: see ``predict_mixture``."""
    counts = np.array([point.workers for point in points] + [workers], float)
    over = np.array([point.nodes or 1 for point in points] + [nodes or 1], float)
    seconds = np.array([point.workers / point.throughput for point in points])
    scale = float(seconds[0])
    forms = normal_forms(counts, over)
    mean = 1 + np.einsum("fnp,fp->fn", forms.terms, forms.means)
    covariance = np.einsum("fnp,fp,fmp->fnm", forms.terms, forms.sds**2, forms.terms) + _FREE**2
    doublings = np.log2(counts / counts[0])
    level = np.append(seconds, seconds[-1]) / scale
    walk = np.minimum.outer(doublings, doublings) * np.multiply.outer(level, level)
    parts = [_posterior(seconds / scale, mean, covariance + drift**2 * walk, noise) for noise, drift in SPREAD]
    means, variances, evidence = (np.stack(column) for column in zip(*parts, strict=True))
    noises = np.array(SPREAD)[:, :1]
    return Posteriors(forms, scale, means, variances + (noises * means) ** 2, evidence)


def predict_mixture(
    points: Sequence[CurvePoint], workers: int, nodes: int | None, prior: NormalFormPrior | None = None
) -> Mixture:
    """Predict the time per sample of one worker at ``workers`` on ``nodes``, from at least one point.

    Points must be ascending, one for each count, and all or none of them have nodes.
    """
    return weighted(posteriors(points, workers, nodes), prior or NormalFormPrior())


def weighted(fitted: Posteriors, prior: NormalFormPrior) -> Mixture:
    """Mix all forms, each by its prior weight and the evidence for it."""
    logs = (fitted.log_evidence + fitted.forms.log_weights(prior)).ravel()
    weights = np.exp(logs - logs.max())
    by_form = weights.reshape(fitted.means.shape).sum(0)
    return Mixture(
        means=fitted.scale * fitted.means.ravel(),
        sds=fitted.scale * np.sqrt(fitted.variances).ravel(),
        weights=weights / weights.sum(),
        leading=fitted.forms.named(int(by_form.argmax())),
    )


def _posterior(relative: Array, mean: Array, covariance: Array, noise: float) -> tuple[Array, Array, Array]:
    """(mean, variance without noise, log evidence) of every form at the last count, from all counts before it."""
    seen = len(relative)
    root = np.linalg.cholesky(covariance[:, :seen, :seen] + np.diag((noise * relative) ** 2))
    sides = np.stack([relative - mean[:, :seen], covariance[:, :seen, seen]], axis=-1)
    residual, gain = np.moveaxis(np.linalg.solve(root, sides), -1, 0)
    evidence = -0.5 * (residual**2).sum(1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
    variance = np.maximum(covariance[:, seen, seen] - (gain**2).sum(1), 0)
    return mean[:, seen] + (gain * residual).sum(1), variance, evidence


def normal_forms(workers: Array, nodes: Array) -> Forms:
    """List every form at these counts.

    Of one node they are only those inside it, of several the segmented ones and those through.
    """
    full = float((workers / nodes).max())
    several = bool((nodes > 1).any())
    rows: list[tuple[tuple[int, ...], Array]] = []
    for i, power in enumerate(INSIDE):
        through = _term(workers, *power, _AT_WORKERS)
        if not several:
            rows += [((i, a, -1, -1), np.stack([through, 0 * through], 1)) for a in range(len(LOSS))]
            continue
        inside = _term(np.minimum(workers, full), *power, _AT_WORKERS)
        pairs = [np.stack([inside, _term(nodes, *each, _AT_NODES)], 1) for each in OVER]
        pairs.append(np.stack([through, _term(nodes, *STEP, _AT_NODES)], 1))
        for k, terms in enumerate(pairs):
            rows += [((i, a, k, b), terms) for a in range(len(LOSS)) for b in range(len(STEP_LOSS))]
    index = np.array([places for places, _ in rows])
    sds = np.stack([np.array(LOSS)[index[:, 1]], np.array(STEP_LOSS)[index[:, 3]]], 1)
    return Forms(np.stack([terms for _, terms in rows]), _MEAN * sds, sds, index)


def _term(x: Array, i: float, j: int, at: float) -> Array:
    """x^i log2(x)^j, moved and scaled to 0 at 1 and 1 at ``at``; a step for i = j = 0."""
    if (i, j) == STEP:
        return (x > 1).astype(float)
    raw = x**i * np.log2(x) ** j
    at_one = 0.0 if j else 1.0
    scaled: Array = (raw - at_one) / (at**i * np.log2(at) ** j - at_one)
    return scaled


def _name_term(symbol: str, i: float, j: int) -> str:
    if (i, j) == STEP:
        return "step"
    power = "" if not i else symbol if i == 1 else f"{symbol}^{i:.3g}"
    logarithm = "" if not j else f"log({symbol})" if j == 1 else f"log({symbol})^{j}"
    return "·".join(part for part in (power, logarithm) if part)
