"""Published curves with their ends hidden: what a prior would have predicted, without having seen them.

A case is a curve's first counts and one count after them. What each form makes of a case does not depend on the prior,
so it is computed once; a prior only weighs it. Priors and widenings under test come from other sources alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scalecurve_models.fitting.least_squares import Array
from scalecurve_models.laws.corpus import PublishedSeries
from scalecurve_models.laws.extrapolation import (
    FIRST_BOUNDARY,
    KINDS,
    LEAST_COUNTS,
    LEVEL,
    kind_of,
    widen_interval,
)
from scalecurve_models.laws.normal_form import (
    CurvePoint,
    Mixture,
    NormalFormPrior,
    Posteriors,
    posteriors,
    weighted,
)
from scalecurve_models.laws.pooled_prior import PooledPrior, Widening

RATIOS = (2.0, 4.0, 8.0)
_ROUNDS = 30
_SMOOTH = 0.5
_ENOUGH = 20  # with fewer cases of a kind at a ratio, all kinds are asked, and its intervals are not made narrower


@dataclass(frozen=True)
class Case:
    """``seen`` of a curve, and the ``target`` that follows; ``last`` if only the largest count is hidden."""

    series: PublishedSeries
    seen: tuple[CurvePoint, ...]
    target: CurvePoint

    @property
    def source(self) -> str:
        return self.series.source

    @property
    def ratio(self) -> float:
        return self.target.workers / self.seen[-1].workers

    @property
    def last(self) -> bool:
        return len(self.seen) == len(self.series.points) - 1

    @property
    def kind(self) -> str:
        return kind_of(self.seen, self.target.nodes)

    @cached_property
    def posteriors(self) -> Posteriors:
        return posteriors(self.seen, self.target.workers, self.target.nodes)

    def mixture(self, prior: NormalFormPrior) -> Mixture:
        return weighted(self.posteriors, prior)


@dataclass(frozen=True)
class Hindcast:
    """A case under one prior: predicted samples/s and the interval; ``stretch`` is |error| in half-widths of it."""

    case: Case
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.predicted / self.case.target.throughput - 1

    @property
    def holds(self) -> bool:
        return self.low <= self.case.target.throughput <= self.high

    @property
    def stretch(self) -> float:
        end = self.low if self.case.target.throughput < self.predicted else self.high
        return abs(math.log(self.case.target.throughput / self.predicted) / math.log(end / self.predicted))

    def widened(self, factor: float) -> Hindcast:
        low, high = (self.predicted * (end / self.predicted) ** factor for end in (self.low, self.high))
        return Hindcast(self.case, self.predicted, low, high)


def cases_of(series: Iterable[PublishedSeries]) -> tuple[Case, ...]:
    """Every cut of every curve after at least three counts, and every count after it up to eight times as large."""
    cases = (
        Case(each, each.points[:seen], target)
        for each in series
        for seen in range(LEAST_COUNTS, len(each.points))
        for target in each.points[seen:]
    )
    return tuple(case for case in cases if case.ratio <= RATIOS[-1])


def hindcast(case: Case, prior: NormalFormPrior) -> Hindcast:
    """The case as the prior predicts it, with the interval of the mixture itself."""
    return Hindcast(case, *widen_interval(case.mixture(prior), case.target.workers, 1.0))


def widenings_of(outcomes: Sequence[Hindcast]) -> tuple[Widening, ...]:
    """The factor for each kind and ratio that makes 95 % of the outcomes hold, every source at the root of its share.

    Split conformal prediction (Vovk et al. 2005) with weights; never less for a larger ratio. A kind with fewer than 20
    cases at a ratio takes the larger of its own factor and that of all kinds, and is not made narrower; there is none
    for a ratio that fewer than 20 cases of all kinds test, or none but the first boundary's own.
    """
    out = []
    for kind in KINDS:
        factor = 0.0
        for nearer, ratio in zip((0.0, *RATIOS), RATIOS, strict=False):
            own = [each for each in _within(outcomes, nearer, ratio) if each.case.kind == kind]
            alike = [each for each in _within(outcomes, nearer, ratio) if FIRST_BOUNDARY not in (kind, each.case.kind)]
            here = own if len(own) >= _ENOUGH else alike
            if len(here) < _ENOUGH:
                continue
            factor = max([factor, *(_held(each) for each in (own, here) if each)])
            out.append(Widening(kind, ratio, round(factor if here is own else max(factor, 1.0), 4), len(here)))
    return tuple(out)


def _within(outcomes: Sequence[Hindcast], nearer: float, ratio: float) -> list[Hindcast]:
    return [each for each in outcomes if nearer + 1e-9 < each.case.ratio <= ratio + 1e-9]


def _held(outcomes: Sequence[Hindcast]) -> float:
    """The factor that makes 95 % of them hold."""
    return _quantile([each.stretch for each in outcomes], _shares(outcomes), LEVEL)


def _shares(outcomes: Sequence[Hindcast]) -> Array:
    sources = [each.case.source for each in outcomes]
    return np.array([1 / math.sqrt(sources.count(source)) for source in sources])


def _quantile(values: Sequence[float], shares: Array, level: float) -> float:
    order = np.argsort(values)
    # The unseen value itself counts as infinite, with the mean share.
    cumulated = np.cumsum(shares[order]) / (shares.sum() + shares.mean())
    return float(np.array(values)[order][min(int(np.searchsorted(cumulated, level)), len(values) - 1)])


class Evidence:
    """The log evidence of complete curves under every form, from which priors without some of them follow."""

    def __init__(self, series: Sequence[PublishedSeries]) -> None:
        self.sources = [each.source for each in series]
        fitted = [posteriors(each.points, each.points[-1].workers, each.points[-1].nodes) for each in series]
        sizes = [len(each.forms.index) for each in fitted]
        self._alike = [[at for at, each in enumerate(sizes) if each == size] for size in sorted(set(sizes))]
        self._forms = [fitted[places[0]].forms for places in self._alike]
        self._evidence = [np.stack([fitted[at].log_evidence for at in places]) for places in self._alike]
        self._priors: dict[frozenset[str], NormalFormPrior] = {}

    def prior(self, without: Iterable[str] = ()) -> NormalFormPrior:
        """Empirical Bayes by expectation maximization over the curves of all other sources."""
        excluded = frozenset(without) & frozenset(self.sources)
        if excluded in self._priors:
            return self._priors[excluded]
        shares = np.array(
            [0.0 if each in excluded else 1 / math.sqrt(self.sources.count(each)) for each in self.sources]
        )
        prior = NormalFormPrior()
        for _ in range(_ROUNDS):
            prior = self._maximized(prior, shares)
        self._priors[excluded] = prior
        return prior

    def _maximized(self, prior: NormalFormPrior, shares: Array) -> NormalFormPrior:
        fields = [prior.inside, prior.loss, prior.over, prior.step]
        totals = [np.zeros(len(weights) + 1) for weights in fields]
        spreads = np.zeros(np.shape(prior.spread))
        for places, forms, evidence in zip(self._alike, self._forms, self._evidence, strict=True):
            logs = evidence + forms.log_weights(prior)
            weights = np.exp(logs - logs.max((1, 2), keepdims=True))
            of_forms = np.einsum("csf,c->sf", weights, shares[places] / weights.sum((1, 2)))
            np.add.at(spreads, forms.index[:, 1].astype(int), of_forms.T)
            for total, column in zip(totals, forms.index.T, strict=True):
                np.add.at(total, column.astype(int), of_forms.sum(0))
        inside, loss, over, step = (_normalized(total[:-1]) for total in totals)
        return NormalFormPrior(inside, loss, over, step, tuple(_normalized(row) for row in spreads))


def _normalized(totals: Array) -> tuple[float, ...]:
    smooth = totals + _SMOOTH
    return tuple(round(float(share), 5) for share in smooth / smooth.sum())


def pooled(evidence: Evidence, cases: Sequence[Case], without: str = "") -> PooledPrior:
    """The prior of all sources but one, its widenings by outcomes that also leave out their own source."""
    sources = sorted({case.source for case in cases} - {without})
    outcomes = [
        hindcast(case, prior)
        for source in sources
        for prior in [evidence.prior((without, source))]
        for case in cases
        if case.source == source
    ]
    return PooledPrior(evidence.prior((without,)), widenings_of(outcomes))
