"""What is recommended, as sentences and as tables: optima, and time, cost and probabilities of every count."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalecurve.features.accuracy.results.critical_batch import SeriesCriticalBatch, critical_batch_table
from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.text import count, plural
from scalecurve_models.fitting.least_squares import Array
from scalecurve_models.recommend.candidates import Candidate

CERTAIN = 0.95  # an answer is certain, and a limit kept, when it holds in this share of the simulations
Quantity = Literal["seconds", "cost"]


@dataclass(frozen=True)
class Optimum:
    """The count with the lowest median for one goal on one curve, and the share of simulations in which it wins.

    ``others`` are the further counts needed to cover the winner of 95 % of the simulations; ``caveat`` says what would
    separate them. ``workers`` is None where no count qualifies, and ``caveat`` says why. ``sessions`` is what the
    probability holds for: "in this session", or "over 3 sessions".
    """

    series: str
    scope: str
    goal: str
    caveat: str
    workers: int | None = None
    probability: float | None = None
    others: tuple[tuple[int, float], ...] = ()
    sessions: str = ""

    @property
    def sentence(self) -> str:
        if self.workers is None:
            return f"{self.series}: {self.goal} ({self.scope}): {self.caveat}"
        workers = f"{count(self.workers, 'worker')} {plural(self.workers, 'is', 'are')}"
        answer = (
            f"{self.series}: {workers} {self.goal} for {self.scope} "
            f"({_probability(self.probability or 0.0)} probability{self.sessions and f', {self.sessions}'})"
        )
        return f"{answer}. {self.caveat[0].upper()}{self.caveat[1:]}" if self.caveat else answer


@dataclass(frozen=True)
class SeriesCandidates:
    """All counts of one curve for one scope (an amount of work, or a target), and the optima."""

    series: str
    scope: str
    currency: str
    candidates: tuple[Candidate, ...]
    optima: tuple[Optimum, ...]


@dataclass(frozen=True)
class Recommendation:
    """The optima and what they rest on, for every curve of a bundle."""

    bundle: str
    series: tuple[SeriesCandidates, ...]
    notes: tuple[str, ...]
    worth: tuple[SeriesCriticalBatch, ...] = ()

    @property
    def optima(self) -> tuple[Optimum, ...]:
        return tuple(optimum for series in self.series for optimum in series.optima)

    def tables(self) -> tuple[Table, ...]:
        worth_tables = (critical_batch_table(self.worth),) if self.worth else ()
        return _optimum_table(self), _candidate_table(self), *worth_tables


def draws_of(candidate: Candidate, quantity: Quantity) -> Array:
    """Simulated times in seconds, or costs, of a usable candidate."""
    draws = candidate.seconds if quantity == "seconds" else candidate.cost
    assert draws is not None
    return draws


def _probability(share: float) -> str:
    """A share of simulations in whole percent; only all or none of them is 100 % or 0 %."""
    if 0 < share < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= share < 1 else formatting.percent(share, 0)


def _optimum_table(recommendation: Recommendation) -> Table:
    columns = (
        *columns_of("text", series="Series", scope="Scope", goal="Goal"),
        Column("workers", "Workers", "count"),
        Column("probability", "Probability", "percent"),
        *columns_of("text", others="Others (probability)", caveat="Caveat"),
    )
    rows = [
        (
            *(optimum.series, optimum.scope, optimum.goal, optimum.workers, optimum.probability),
            ", ".join(f"{n} ({_probability(share)})" for n, share in optimum.others) or None,
            optimum.caveat or None,
        )
        for optimum in recommendation.optima
    ]
    title = f"Recommendation for {recommendation.bundle}"
    return Table("recommendation", title, columns, tuple(rows), recommendation.notes)


def _candidate_table(recommendation: Recommendation) -> Table:
    columns = (
        *columns_of("text", series="Series", scope="Scope"),
        Column("workers", "Workers", "count"),
        Column("basis", "Basis"),
        *columns_of("number", "s", seconds="Time", seconds_low="Time 95 % low", seconds_high="Time 95 % high"),
        *columns_of("number", cost="Cost", cost_low="Cost 95 % low", cost_high="Cost 95 % high"),
        Column("currency", "Currency"),
        *columns_of("percent", fastest="Fastest", cheapest="Cheapest"),
        Column("pareto", "Pareto-optimal", "flag"),
    )
    rows = [row for series in recommendation.series for row in _candidate_rows(series)]
    notes = ("Fastest and cheapest are the shares of simulations in which a count wins.",) if rows else ()
    return Table("candidates", "Time and cost by worker count", columns, tuple(rows), notes)


def _candidate_rows(series: SeriesCandidates) -> list[tuple[Cell, ...]]:
    usable = [candidate for candidate in series.candidates if candidate.seconds is not None]
    if not usable:
        return []
    seconds = np.stack([draws_of(candidate, "seconds") for candidate in usable])
    cost = np.stack([draws_of(candidate, "cost") for candidate in usable])
    fastest, cheapest = (np.bincount(q.argmin(axis=0), minlength=len(usable)) / q.shape[1] for q in (seconds, cost))
    certainty = min(candidate.certainty for candidate in usable)
    mid_s, mid_c = np.median(seconds, axis=1), np.median(cost, axis=1)
    return [
        (
            *(series.series, series.scope, candidate.workers, candidate.basis),
            *_median_interval(seconds[i]),
            *(*_median_interval(cost[i]), series.currency),
            *(min(float(share[i]), certainty) for share in (fastest, cheapest)),
            not bool(((mid_s < mid_s[i]) & (mid_c < mid_c[i])).any()),
        )
        for i, candidate in enumerate(usable)
    ]


def _median_interval(draws: Array) -> tuple[float, float, float]:
    low, middle, high = np.quantile(draws, [0.025, 0.5, 0.975])
    return float(middle), float(low), float(high)
