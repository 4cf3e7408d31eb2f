"""The results of every analysis of the same bundles, each step table read once: what sections and plots draw from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from scalecurve.bundle.measurement import MeasuredSeries, measure
from scalecurve.bundle.open import Bundle
from scalecurve.bundle.step_summary import Digests, digest_all
from scalecurve.checks.comparability import Difference, differences
from scalecurve.checks.diagnose import Diagnosis, diagnose_from
from scalecurve.curves.allreduce import AllReduceReport, allreduce
from scalecurve.curves.compute import scaling
from scalecurve.curves.cost import CostReport, cost_of
from scalecurve.curves.results import ScalingResult
from scalecurve.training_results import Training, of_series
from scalecurve_api.spec.experiment import Cost

T = TypeVar("T")


@dataclass(frozen=True)
class Findings:
    """``price`` replaces what the experiments state; ``curves`` are the series that train something."""

    bundles: tuple[Bundle, ...]
    price: Cost | None
    measured: tuple[MeasuredSeries, ...]
    scaling: ScalingResult
    curves: ScalingResult
    costs: CostReport
    allreduce: AllReduceReport
    digests: Digests
    diagnosis: Diagnosis
    training: Training
    differences: tuple[Difference, ...]
    _cache: dict[Callable[[Findings], Any], Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, compute: Callable[[Findings], T]) -> T:
        """``compute(self)``, computed once: what several sections and plots of an extension share."""
        if compute not in self._cache:
            self._cache[compute] = compute(self)
        return cast(T, self._cache[compute])


def analyze(bundles: Sequence[Bundle], price: Cost | None = None, price_notes: Sequence[str] = ()) -> Findings:
    """Read and analyze; nothing is drawn yet."""
    result = scaling(bundles)
    digests = digest_all(bundles)
    measured = tuple(series for bundle in bundles for series in measure(bundle))
    return Findings(
        bundles=tuple(bundles),
        price=price,
        measured=measured,
        scaling=result,
        curves=result.curves(),
        costs=cost_of(result.curves(), bundles, price, price_notes),
        allreduce=allreduce(bundles),
        digests=digests,
        diagnosis=diagnose_from(bundles, digests),
        training=of_series(measured),
        differences=differences(bundles),
    )
