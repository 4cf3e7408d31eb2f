"""How often the intervals of ``scalecurve.corpus.noise`` hold what they promise, on published repetitions.

    python docs/evidence/corpus/scripts/corpus_intervals.py ROUND.corpus ROUND.corpus...

Each file is a round, as ``python -m tools.corpus mlperf`` writes it. *This machine, in this session*: the first three runs
of a point, in the order of time, for the mean of the rest, where no half hour without a run lies between them, and
beside it where one does. *Another machine*: all submitters but one, for the one that was left out.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from scalecurve.corpus.acceptance import BELOW, error_rates, refuses
from scalecurve.corpus.comparable import published_name
from scalecurve.corpus.copies import joined
from scalecurve.corpus.corpus_file import load_shipped, read_corpus
from scalecurve.corpus.noise import FLOOR, another_machine, machine_prior, this_session
from scalecurve.corpus.refused_systems import refused_systems
from scalecurve.corpus.schema import UNSTEADY, Corpus, PublishedPoint
from scalecurve.statistics.spread import student_quantile, sum_of_squares

FIRST, LEAST = 3, 5
DRAWS = 2000
BREAK_S = 1800
FLOORS = (0.0, 0.0005, 0.0006, 0.0007, 0.0008, 0.0009, 0.001, 0.0012, 0.0015)


@dataclass(frozen=True)
class Held:
    """An interval of one point: whether it held, its half width (relative), and what it can be grouped by."""

    holds: bool
    half: float
    groups: Mapping[str, str]


def repetitions_of(point: PublishedPoint) -> list[float]:
    """The rates of the runs, or what was logged where no unit is proved: only ratios matter here."""
    return [value for run in point.runs if (value := run.rate if run.rate is not None else run.relative) is not None]


def in_one_go(point: PublishedPoint) -> str:
    """Whether half an hour or more without a run lies between runs: ``one go``, ``a break``, or ``times not logged``."""
    free_at = None
    for run in point.runs:
        if run.started_at is None or run.minutes is None:
            return "times not logged"
        if free_at is not None and run.started_at - free_at >= BREAK_S:
            return "a break"
        free_at = max(free_at or 0.0, run.started_at + run.minutes * 60)
    return "one go"


def this_session_held(points: Iterable[PublishedPoint], floor: float) -> list[Held]:
    """Of every point with five runs or more: whether its first three hold the mean of the rest."""
    held = []
    for point in points:
        runs = repetitions_of(point)
        if len(runs) < LEAST:
            continue
        first, rest = [math.log(rate) for rate in runs[:FIRST]], fmean(math.log(rate) for rate in runs[FIRST:])
        further = len(runs) - FIRST
        variance = sum_of_squares(first) / (FIRST - 1) + floor**2
        half = student_quantile(FIRST - 1, 0.95) * math.sqrt(variance * (1 / FIRST + 1 / further))
        if floor == FLOOR:
            ours = this_session(runs[:FIRST], further=further)
            assert ours is not None and math.isclose(ours.half, half)
        groups = {
            "round": point.source,
            "submitter": point.submitter,
            "benchmark": published_name(point.benchmark),
            "runs": in_one_go(point),
        }
        held.append(Held(abs(rest - fmean(first)) <= half, half, groups))
    return held


def kinds_of(points: Iterable[PublishedPoint]) -> list[dict[str, list[float]]]:
    """Mean rates of systems by submitter, a dictionary for each kind of system in a round."""
    kinds: dict[tuple[object, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        if len(runs := repetitions_of(point)) >= LEAST:
            kinds[point.kind][point.submitter].append(math.exp(fmean(map(math.log, runs))))
    return [dict(kind) for kind in kinds.values() if len(kind) > 1]


def another_machine_held(kinds: Sequence[Mapping[str, list[float]]]) -> list[Held]:
    """Every system of a submitter by the interval from the others; three others at least, as a verdict asks for."""
    held = []
    for left_out in sorted({submitter for kind in kinds for submitter in kind}):
        others = [[fmean(rates) for name, rates in kind.items() if name != left_out] for kind in kinds]
        prior = machine_prior(others)
        for kind, seen in zip(kinds, others, strict=True):
            interval = another_machine(seen, prior) if len(seen) >= FIRST else None
            if interval is not None:
                held += [
                    Held(interval.holds(math.log(rate)), interval.half, {"submitter": left_out})
                    for rate in kind.get(left_out, ())
                ]
    return held


def unsteady(points: Iterable[PublishedPoint]) -> list[tuple[float, PublishedPoint]]:
    """Points with a run further from their median than 3 %, and how far."""
    found = [(point.farthest or 0.0, point) for point in points if len(point.figures) >= LEAST and point.is_unsteady]
    return sorted(found, key=lambda pair: -pair[0])


def acceptances(corpus: Corpus, repetitions: int, draws: int) -> list[float]:
    """Shares refused of acceptances that are drawn one by one: a machine at the threshold, and those below it."""
    draw = random.Random(1)
    machines = [runs for point in corpus.points if len(runs := repetitions_of(point)) >= max(LEAST, repetitions + 2)]
    refused = [0] * (len(BELOW) + 1)
    for _ in range(draws):
        runs = draw.choice(machines)
        begin = draw.randrange(len(runs) - repetitions + 1)
        tested, others = runs[begin : begin + repetitions], runs[:begin] + runs[begin + repetitions :]
        truth = math.exp(fmean(map(math.log, others)))
        for at, below in enumerate((0.0, *BELOW)):
            refused[at] += refuses(tested, truth / (1 - below), further=len(others)) is True
    return [count / draws for count in refused]


def share(held: Sequence[Held]) -> str:
    """As it is printed: the share that held, of how many, and the median half width."""
    if not held:
        return "none"
    return (
        f"{100 * fmean(each.holds for each in held):5.1f} % of {len(held)}, "
        f"half width {100 * median(each.half for each in held):.2f} %"
    )


def print_groups(held: Sequence[Held], name: str) -> None:
    """A line for each value of a group."""
    groups: dict[str, list[Held]] = defaultdict(list)
    for each in held:
        groups[each.groups[name]].append(each)
    for value, members in sorted(groups.items()):
        print(f"    {value}: {share(members)}")


def main() -> None:
    """Print coverage, by round, benchmark and submitter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="+", type=Path)
    corpus, _ = joined([read_corpus(path) for path in parser.parse_args().rounds])
    print(f"points: {len(corpus.points)}, with {LEAST} runs or more: {len(this_session_held(corpus.points, 0.0))}")
    print(f"this machine, in this session, from the first {FIRST} runs, by the floor; 0 is Student's t alone:")
    for floor in FLOORS:
        held = this_session_held(corpus.points, floor)
        rounds = sorted({each.groups["round"] for each in held})
        for runs in ("one go", "a break"):
            by_round = [[h for h in held if (h.groups["round"], h.groups["runs"]) == (name, runs)] for name in rounds]
            shown = "; ".join(f"{name} {share(each)}" for name, each in zip(rounds, by_round, strict=True))
            print(f"    {100 * floor:.2f} %, {runs}: {shown}")
    ours = [each for each in this_session_held(corpus.points, FLOOR) if each.groups["runs"] == "one go"]
    print(f"with {100 * FLOOR:.2f} %, one go: {share(ours)}")
    for name in ("benchmark", "submitter"):
        print(f"  by {name}")
        print_groups(ours, name)
    kinds = kinds_of(corpus.points)
    machines = another_machine_held(kinds)
    print(f"another machine, one submitter left out: {share(machines)}")
    print_groups(machines, "submitter")
    print(f"unsteady, a run more than {100 * UNSTEADY:.0f} % off: {len(unsteady(corpus.points))}")
    for worst, point in unsteady(corpus.points):
        print(f"    {100 * worst:5.1f} %  {point.source} {point.submitter} {point.system} {point.benchmark}")
    print(f"acceptances, {DRAWS:,} drawn from these rounds, beside what `scalecurve corpus power` states:")
    for count in (3, 5, 8):
        stated = error_rates(count, load_shipped())
        shares = zip(acceptances(corpus, count, DRAWS), (stated.false_alarms, *stated.power), strict=True)
        print(f"    {count} repetitions: {', '.join(f'{100 * a:.1f} ({100 * b:.1f})' for a, b in shares)} %")
        if refused := refused_systems(corpus, 0.25, count):
            print(f"    {refused.sentence}")


if __name__ == "__main__":
    main()
