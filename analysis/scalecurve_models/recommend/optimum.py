"""The best worker count for one goal among those that may be recommended, and the caveat on the answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.render import formatting
from scalecurve_api.text import count
from scalecurve_models.fitting.least_squares import Array
from scalecurve_models.recommend.candidates import Candidate
from scalecurve_models.recommend.recommendation import CERTAIN, Optimum, Quantity, draws_of

_FAR = 2.0  # multiple of the largest measured count beyond which extrapolation is called out
_LIMITS: dict[Quantity, str] = {"seconds": "deadline", "cost": "budget"}


@dataclass(frozen=True)
class Goal:
    """Minimize one quantity, optionally within limits on quantities, which must be kept together."""

    name: str
    least: Quantity
    limits: tuple[tuple[Quantity, float], ...] = ()

    def kept(self, candidate: Candidate) -> float:
        """The share of simulations in which a count keeps every limit."""
        within = [draws_of(candidate, quantity) <= limit for quantity, limit in self.limits]
        return float(np.logical_and.reduce(within).mean())


def find_optimum(
    series: str, scope: str, goal: Goal, usable: Sequence[Candidate], candidates: Sequence[Candidate]
) -> Optimum:
    """The best count among those that keep the limits with 95 % probability."""
    if not usable:
        caveat = next((candidate.reason for candidate in candidates if candidate.reason), "no worker count is usable")
        return Optimum(series, scope, goal.name, caveat)
    eligible = list(usable)
    if goal.limits:
        keeps = [goal.kept(candidate) for candidate in usable]
        eligible = [candidate for candidate, share in zip(usable, keeps, strict=True) if share >= CERTAIN]
        if not eligible:
            medians = [float(np.median(draws_of(candidate, goal.limits[0][0]))) for candidate in usable]
            nearest = max(range(len(usable)), key=lambda i: (keeps[i], -medians[i]))
            closest = count(usable[nearest].workers, "worker")
            limit = " and the ".join(_LIMITS[quantity] for quantity, _ in goal.limits)
            caveat = (
                f"no worker count meets the {limit} in {formatting.percent(CERTAIN, 0)} of simulations; "
                f"{closest} comes closest ({formatting.percent(keeps[nearest], 0)})"
            )
            return Optimum(series, scope, goal.name, caveat)
    draws = np.stack([draws_of(candidate, goal.least) for candidate in eligible])
    wins = np.bincount(draws.argmin(axis=0), minlength=len(eligible)) / draws.shape[1]
    # The lowest median, not the most frequent winner: that would be the count with the widest uncertainty.
    medians_ = np.median(draws, axis=1)
    best = min(_select_trustworthy(eligible, draws, medians_), key=lambda i: float(medians_[i]))
    others: list[tuple[int, float]] = []
    for i in np.argsort(-wins, kind="stable"):
        if i != best and wins[i] > 0 and wins[best] + sum(share for _, share in others) < CERTAIN:
            others.append((eligible[i].workers, float(wins[i])))
    rivals = [eligible[best], *(candidate for candidate in eligible if candidate.workers in dict(others))]
    # Nothing is more certain than the calibration of what it rests on.
    probability = min(float(wins[best]), *(candidate.certainty for candidate in eligible))
    caveat = _caveat(rivals, probability)
    return Optimum(series, scope, goal.name, caveat, eligible[best].workers, probability, tuple(others))


def _select_trustworthy(eligible: Sequence[Candidate], draws: Array, medians: Array) -> list[int]:
    """Counts that may be recommended; one that no tested model predicts must beat the measured ones with certainty."""
    measured = [i for i, candidate in enumerate(eligible) if candidate.measured]
    if not measured:
        return list(range(len(eligible)))
    best = min(measured, key=lambda i: float(medians[i]))
    return [
        i
        for i, candidate in enumerate(eligible)
        if candidate.measured or candidate.tested or float((draws[i] < draws[best]).mean()) >= CERTAIN
    ]


def _caveat(rivals: Sequence[Candidate], probability: float) -> str:
    unmeasured = [candidate for candidate in rivals if not candidate.measured]
    if unmeasured:
        counts = _list([candidate.workers for candidate in unmeasured])
        if any(not candidate.tested for candidate in unmeasured):
            why = (
                "two measured counts test no model, since the loss may stay constant or grow with N or N²"
                f" ({counts} not measured)"
            )
        else:
            why = f"{counts} not measured, predicted by {unmeasured[0].basis}"
            beyond = max(candidate.beyond for candidate in unmeasured)
            if beyond > _FAR:
                why += f"; extrapolated {formatting.number(beyond, 2)}x beyond the largest measured count"
        return f"{why}; run {counts} to confirm"
    if probability >= CERTAIN or len(rivals) < 2:
        return ""
    return f"measurements cannot separate {_list([c.workers for c in rivals])} workers; run more repetitions"


def _list(counts: Sequence[int]) -> str:
    *first, last = map(str, sorted(counts))
    return f"{', '.join(first)} and {last}" if first else last
