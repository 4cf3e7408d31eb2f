"""What is recommended, for people and as tables: answers, and every count's time, cost and chances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalecurve.render import formatting as spelling
from scalecurve.render.table import Cell, Column, Table
from scalecurve.training_results.critical_batch import Worth, worth_table
from scalecurve_models.fitting.least_squares import Array
from scalecurve_models.recommend.candidates import Choice

SURE = 0.95
"""An answer is sure, and a limit surely kept, in this share of the draws."""
Quantity = Literal["seconds", "cost"]


@dataclass(frozen=True)
class Answer:
    """One question on one curve: the count with the least median, and the share of draws in which it wins.

    ``others`` are the further counts that it takes to hold the winner of 95 % of the draws; ``decides`` says what would
    tell them apart. ``workers`` is None where no count qualifies, and ``decides`` says why.
    """

    series: str
    what: str
    goal: str
    workers: int | None
    probability: float | None
    others: tuple[tuple[int, float], ...]
    decides: str

    @property
    def sure(self) -> bool:
        return self.probability is not None and self.probability >= SURE

    @property
    def sentence(self) -> str:
        if self.workers is None:
            return f"{self.series}: {self.goal} ({self.what}): {self.decides}"
        sure = f"{self.series}: {self.goal} ({self.what}) at {in_words(self.workers)}"
        sure += f", in {_chance(self.probability or 0.0)} of what the measurements leave open"
        return f"{sure}; {self.decides}" if self.decides else sure


@dataclass(frozen=True)
class SeriesChoices:
    """All counts of one curve for one end (an amount of work, or a target), and the answers."""

    series: str
    what: str
    currency: str
    choices: tuple[Choice, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Recommendation:
    """Answers and what they rest on, for every curve of a bundle."""

    bundle: str
    series: tuple[SeriesChoices, ...]
    notes: tuple[str, ...]
    worth: tuple[Worth, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(answer for each in self.series for answer in each.answers)

    def tables(self) -> tuple[Table, ...]:
        worth_rows = (worth_table(self.worth),) if self.worth else ()
        return _answer_table(self), _choice_table(self), *worth_rows


def drawn(choice: Choice, quantity: Quantity) -> Array:
    """Every draw of a known count's time in seconds, or of its cost."""
    found = choice.seconds if quantity == "seconds" else choice.cost
    assert found is not None
    return found


def in_words(count: int) -> str:
    """A worker count, for people."""
    return "1 worker" if count == 1 else f"{count} workers"


def _chance(share: float) -> str:
    """A share of draws in whole percent; what is not all or none of them is not called so."""
    if 0 < share < 0.005:
        return "under 1 %"
    return "over 99 %" if 0.995 <= share < 1 else spelling.percent(share, 0)


def _answer_table(found: Recommendation) -> Table:
    columns = (
        Column("series", "Series"),
        Column("what", "Of"),
        Column("goal", "Asked for"),
        Column("workers", "Workers", "count"),
        Column("probability", "Chance", "percent"),
        Column("others", "Others (chance)"),
        Column("decides", "What it hangs on"),
    )
    rows = [
        (
            *(answer.series, answer.what, answer.goal, answer.workers, answer.probability),
            ", ".join(f"{n} ({_chance(chance)})" for n, chance in answer.others) or None,
            answer.decides or None,
        )
        for answer in found.answers
    ]
    return Table("recommendation", f"Recommendation for {found.bundle}", columns, tuple(rows), found.notes)


def _choice_table(found: Recommendation) -> Table:
    columns = (
        Column("series", "Series"),
        Column("what", "Of"),
        Column("workers", "Workers", "count"),
        Column("basis", "Known by"),
        Column("seconds", "Time", "number", "s"),
        Column("seconds_low", "from", "number"),
        Column("seconds_high", "to", "number"),
        Column("cost", "Cost", "number"),
        Column("cost_low", "from", "number"),
        Column("cost_high", "to", "number"),
        Column("currency", "in"),
        Column("fastest", "Chance to be fastest", "percent"),
        Column("cheapest", "cheapest", "percent"),
        Column("pareto", "Nothing is both faster and cheaper", "flag"),
    )
    rows = [row for each in found.series for row in _choice_rows(each)]
    notes = ("From and to hold 95 % of the draws.",) if rows else ()
    return Table("choices", "Time and cost of every count", columns, tuple(rows), notes)


def _choice_rows(each: SeriesChoices) -> list[tuple[Cell, ...]]:
    known = [choice for choice in each.choices if choice.seconds is not None]
    if not known:
        return []
    seconds = np.stack([drawn(choice, "seconds") for choice in known])
    cost = np.stack([drawn(choice, "cost") for choice in known])
    fastest, cheapest = (np.bincount(q.argmin(axis=0), minlength=len(known)) / q.shape[1] for q in (seconds, cost))
    mid_s, mid_c = np.median(seconds, axis=1), np.median(cost, axis=1)
    rows: list[tuple[Cell, ...]] = []
    for i, choice in enumerate(known):
        beaten = bool(((mid_s < mid_s[i]) & (mid_c < mid_c[i])).any())
        rows.append(
            (
                *(each.series, each.what, choice.workers, choice.basis),
                *_interval(seconds[i]),
                *(*_interval(cost[i]), each.currency),
                *(float(fastest[i]), float(cheapest[i]), not beaten),
            )
        )
    return rows


def _interval(drawn: Array) -> tuple[float, float, float]:
    low, middle, high = np.quantile(drawn, [0.025, 0.5, 0.975])
    return float(middle), float(low), float(high)
