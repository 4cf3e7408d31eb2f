"""Which worker count is the fastest, the cheapest, or the best within a limit, and how sure that is.

Answers come from draws of every count's time and cost (``predict.choices``): the count with the least median is
recommended, the share of draws in which it wins is how sure that is, and what keeps it from being sure is said. Where
two counts alone were run no model was tested: another count is recommended only if it beats both in 95 % of all the
ways in which the loss may go on, and else the better of the two.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from scalebench import spelling
from scalebench.bundle import Bundle
from scalebench.predict.beside import SeriesBeside, beside
from scalebench.predict.choices import Choice, Question, choices
from scalebench.predict.fitting import Array, FitError
from scalebench.predict.learning import Learning, learning
from scalebench.predict.untested import WAYS
from scalebench.scaling import scaling
from scalebench.table import Cell, Column, Table
from scalebench.training import training
from scalebench.training.worth import Worth, worth, worth_table
from scalebench_api.experiment import Cost

SURE = 0.95
_FAR = 2.0
"""A count this many times the largest that was run is far from anything that tested a model."""
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
        """Whether it wins in 95 % of the draws."""
        return self.probability is not None and self.probability >= SURE

    @property
    def sentence(self) -> str:
        """For people."""
        if self.workers is None:
            return f"{self.series}: {self.goal} ({self.what}): {self.decides}"
        sure = f"{self.series}: {self.goal} ({self.what}) at {_workers(self.workers)}"
        sure += f", in {spelling.percent(self.probability or 0.0, 0)} of what the measurements leave open"
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
        """All of them."""
        return tuple(answer for each in self.series for answer in each.answers)

    def tables(self) -> tuple[Table, ...]:
        """The answers, every count with its time, cost and chances, and what its batch is worth where that is known."""
        worth_rows = (worth_table(self.worth),) if self.worth else ()
        return _answer_table(self), _choice_table(self), *worth_rows


def recommend(
    bundle: Bundle,
    *,
    workers: Sequence[int] = (),
    price: Cost | None = None,
    target: float | None = None,
    target_loss: float | None = None,
    deadline_s: float | None = None,
    budget: float | None = None,
    noise_scale: float | None = None,
    hold_out: Collection[int] = (),
    level: float = 0.95,
) -> Recommendation:
    """Recommend worker counts among the measured ones and the further ``workers``, which models predict.

    Work is the whole training, an epoch or a million samples, as ``spec.cost`` (or ``price``) says; with a target
    accuracy or loss also the way there. ``deadline_s`` and ``budget`` ask for the cheapest and the fastest count that
    keeps them; without a price cost is in worker-hours, and so is the budget. ``noise_scale`` weighs samples of larger
    batches by the gradient noise scale, instead of by the one that a series' own runs measured.
    ``hold_out`` are measured counts that are treated as if they had not been.

    Raises:
        FitError: for limits, targets or counts that are not positive, or a count to hold out that was not measured.
    """
    _check(workers, target, target_loss, deadline_s, budget, noise_scale)
    curves = scaling([bundle], level).series
    learnt = learning(bundle, target_loss, target)
    learnt = replace(learnt, points=tuple(p for p in learnt.points if p.point.workers not in hold_out))
    measured = {p.workers for curve in curves for p in curve.measured}
    if unknown := sorted({*hold_out} - measured):
        known = ", ".join(map(str, sorted(measured))) or "none"
        raise FitError(f"recommend: hold out {unknown[0]}: it was not measured; measured: {known}")
    if hold_out and not measured - {*hold_out}:
        raise FitError("recommend: every measured count is held out: nothing is left to recommend from")
    if target is None and target_loss is None:
        target = _own_target(bundle)
    questions = [Question()]
    if target is not None or target_loss is not None:
        questions.append(Question(target, target_loss))
    values = worth(training([bundle], level).points)
    scales = {each.series: each.scale for each in values}
    out = []
    for found in beside(bundle, hold_out=hold_out, price=price, level=level):
        result = next(curve for curve in curves if curve.name == found.series.name)
        estimates = {
            p.workers: p.throughput for p in result.points if p.throughput is not None and p.workers not in hold_out
        }
        own = noise_scale if noise_scale is not None else scales.get(found.series.name)
        for asked in questions:
            question = asked if asked.to_target else replace(asked, noise_scale=own)
            made = choices(found, estimates, workers, question, learnt)
            if question.to_target and not any(choice.seconds is not None for choice in made) and not learnt.points:
                continue
            out.append(_answered(found, made, _what(found, question), deadline_s, budget))
    return Recommendation(bundle.label, tuple(out), tuple(_notes(out, learnt, noise_scale, values)), values)


def _check(workers: Sequence[int], *limits: float | None) -> None:
    if any(count < 1 for count in workers):
        raise FitError(f"recommend: worker counts must be at least 1, given {min(workers)}")
    for name, value in zip(("target", "target loss", "deadline", "budget", "noise scale"), limits, strict=True):
        if value is not None and not 0 < value < float("inf"):
            raise FitError(f"recommend: {name} must be a finite positive number, given {value:g}")
    if limits[0] is not None and limits[0] >= 1:
        raise FitError(f"recommend: a target accuracy lies between 0 and 1, given {limits[0]:g}")


def _own_target(bundle: Bundle) -> float | None:
    accuracy = bundle.trials[0].spec.measure.accuracy if bundle.trials else None
    return accuracy.target if accuracy else None


def _what(found: SeriesBeside, question: Question) -> str:
    if question.target_loss is not None:
        return f"to a loss of {question.target_loss:g}"
    if question.target is not None:
        return f"to an accuracy of {question.target:g}"
    return found.work.title


def _answered(
    found: SeriesBeside, made: tuple[Choice, ...], what: str, deadline_s: float | None, budget: float | None
) -> SeriesChoices:
    known = [choice for choice in made if choice.seconds is not None]
    currency = found.work.currency or "worker-hours"
    ask = [_Goal("fastest", "seconds"), _Goal("cheapest", "cost")]
    if deadline_s is not None:
        ask.append(_Goal(f"cheapest within {spelling.seconds(deadline_s)}", "cost", "seconds", deadline_s))
    if budget is not None:
        ask.append(_Goal(f"fastest for {spelling.number(budget)} {currency}", "seconds", "cost", budget))
    answers = tuple(_answer(found.series.name, what, goal, known, made) for goal in ask)
    return SeriesChoices(found.series.name, what, currency, made, answers)


@dataclass(frozen=True)
class _Goal:
    """The least of one quantity, where the other keeps a limit."""

    name: str
    least: Quantity
    limited: Quantity | None = None
    limit: float = 0.0


def _answer(series: str, what: str, goal: _Goal, known: Sequence[Choice], made: Sequence[Choice]) -> Answer:
    """The best count among those that surely keep the limit."""
    if not known:
        why = next((choice.why for choice in made if choice.why), "no count is known")
        return Answer(series, what, goal.name, None, None, (), why)
    eligible = list(known)
    if goal.limited is not None:
        keeps = {choice.workers: float((_drawn(choice, goal.limited) <= goal.limit).mean()) for choice in known}
        eligible = [choice for choice in known if keeps[choice.workers] >= SURE]
        if not eligible:
            nearest = max(keeps, key=lambda n: keeps[n])
            chance = spelling.percent(keeps[nearest], 0)
            why = f"no count keeps that surely; the nearest is {_workers(nearest)}, in {chance} of the draws"
            return Answer(series, what, goal.name, None, None, (), why)
    draws = np.stack([_drawn(choice, goal.least) for choice in eligible])
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


def _drawn(choice: Choice, quantity: Quantity) -> Array:
    drawn = choice.seconds if quantity == "seconds" else choice.cost
    assert drawn is not None
    return drawn


def _decides(rivals: Sequence[Choice], probability: float) -> str:
    """What the answer hangs on."""
    unmeasured = [choice for choice in rivals if not choice.measured]
    if any(not choice.tested for choice in unmeasured):
        return _untested(unmeasured)
    if unmeasured:
        beyond = max(choice.beyond for choice in unmeasured)
        far = f", {beyond:.3g} times as many as the most that were run" if beyond > _FAR else ""
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


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _notes(
    found: Sequence[SeriesChoices], learnt: Learning, noise_scale: float | None, values: Sequence[Worth]
) -> list[str]:
    notes = [
        "A chance is the share of draws, of all that the measurements and models leave open, in which a count wins."
    ]
    if any(each.currency == "worker-hours" for each in found):
        notes.append("No price is known, so cost is in worker-hours: give cost.perWorkerHour or --per-worker-hour.")
    if noise_scale is not None:
        notes.append(
            f"A sample in a larger batch is worth less, by a gradient noise scale of {spelling.number(noise_scale)}."
        )
    elif any(each.scale is not None for each in values):
        notes.append("A sample in a larger batch is worth less, by the gradient noise scale that the series measured.")
    notes += [f"{problem.file}: {problem.what}" for problem in learnt.problems]
    unsure = [choice for each in found for choice in each.choices if choice.why]
    notes += list(dict.fromkeys(f"{choice.workers} workers: {choice.why}" for choice in unsure))
    return notes


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
            ", ".join(f"{n} ({spelling.percent(chance, 0)})" for n, chance in answer.others) or None,
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
    seconds = np.stack([_drawn(choice, "seconds") for choice in known])
    cost = np.stack([_drawn(choice, "cost") for choice in known])
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
