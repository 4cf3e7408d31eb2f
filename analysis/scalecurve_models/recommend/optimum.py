"""The best count for one goal among those that may be recommended, and what the answer hangs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.render import formatting as spelling
from scalecurve_models.fitting.least_squares import Array
from scalecurve_models.recommend.candidates import Choice
from scalecurve_models.recommend.extrapolation_prior import WAYS
from scalecurve_models.recommend.recommendation import SURE, Answer, Quantity, drawn, in_words

_FAR = 2.0
"""A count this many times the largest that was run is far from anything that tested a model."""


@dataclass(frozen=True)
class Goal:
    """The least of one quantity, where the other keeps a limit."""

    name: str
    least: Quantity
    limited: Quantity | None = None
    limit: float = 0.0


def answer_of(series: str, what: str, goal: Goal, known: Sequence[Choice], made: Sequence[Choice]) -> Answer:
    """The best count among those that surely keep the limit."""
    if not known:
        why = next((choice.why for choice in made if choice.why), "no count is known")
        return Answer(series, what, goal.name, None, None, (), why)
    eligible = list(known)
    if goal.limited is not None:
        keeps = {choice.workers: float((drawn(choice, goal.limited) <= goal.limit).mean()) for choice in known}
        eligible = [choice for choice in known if keeps[choice.workers] >= SURE]
        if not eligible:
            middle_of = {choice.workers: float(np.median(drawn(choice, goal.limited))) for choice in known}
            nearest = max(keeps, key=lambda n: (keeps[n], -middle_of[n]))
            chance = spelling.percent(keeps[nearest], 0)
            surely = "surely; " if keeps[nearest] else "in any draw; "
            share = f", in {chance} of the draws" if keeps[nearest] else ""
            why = f"no count keeps that {surely}the nearest is {in_words(nearest)}{share}"
            return Answer(series, what, goal.name, None, None, (), why)
    draws = np.stack([drawn(choice, goal.least) for choice in eligible])
    wins = np.bincount(draws.argmin(axis=0), minlength=len(eligible)) / draws.shape[1]
    # The least in the middle of its draws: the most frequent winner would be the one that least is known of.
    middle = np.median(draws, axis=1)
    best = min(_trusted(eligible, draws, middle), key=lambda i: float(middle[i]))
    others: list[tuple[int, float]] = []
    for i in np.argsort(-wins, kind="stable"):
        # As many as it takes to hold the winner of nearly all draws.
        if i != best and wins[i] > 0 and wins[best] + sum(chance for _, chance in others) < SURE:
            others.append((eligible[i].workers, float(wins[i])))
    rivals = [eligible[best], *(choice for choice in eligible if choice.workers in dict(others))]
    return Answer(
        series=series,
        what=what,
        goal=goal.name,
        workers=eligible[best].workers,
        probability=float(wins[best]),
        others=tuple(others),
        decides=_decides(rivals, float(wins[best])),
    )


def _trusted(eligible: Sequence[Choice], draws: Array, middle: Array) -> list[int]:
    """Those that may be recommended: a count that no tested model speaks of, only if it surely beats what was run."""
    run = [i for i, choice in enumerate(eligible) if choice.measured]
    if not run:
        return list(range(len(eligible)))
    best = min(run, key=lambda i: float(middle[i]))
    return [
        i
        for i, choice in enumerate(eligible)
        if choice.measured or choice.tested or float((draws[i] < draws[best]).mean()) >= SURE
    ]


def _decides(rivals: Sequence[Choice], probability: float) -> str:
    unmeasured = [choice for choice in rivals if not choice.measured]
    if any(not choice.tested for choice in unmeasured):
        return _untested(unmeasured)
    if unmeasured:
        beyond = max(choice.beyond for choice in unmeasured)
        far = f", {spelling.number(beyond, 2)} times as many as the most that were run" if beyond > _FAR else ""
        return f"{_not_measured(unmeasured)} but predicted by {unmeasured[0].basis}{far}: a run there decides"
    if probability >= SURE or len(rivals) < 2:
        return ""
    return (
        f"the measurements do not tell {_list([choice.workers for choice in rivals])} apart: repetitions there decide"
    )


def _untested(choices: Sequence[Choice]) -> str:
    return f"{_not_measured(choices)}, and two counts test no model ({WAYS} are all possible): a run there decides"


def _not_measured(choices: Sequence[Choice]) -> str:
    return f"{_list([choice.workers for choice in choices])} {'was' if len(choices) == 1 else 'were'} not measured"


def _list(counts: Sequence[int]) -> str:
    ordered = [str(count) for count in sorted(counts)]
    return ordered[0] if len(ordered) == 1 else f"{', '.join(ordered[:-1])} and {ordered[-1]}"
