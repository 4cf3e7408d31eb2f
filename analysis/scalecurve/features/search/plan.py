"""A search before it runs: its rounds of trials beside the full grid, and the points that are dropped at once."""

from dataclasses import dataclass

from scalecurve.features.search.halving import FINALISTS, quota, rungs
from scalecurve.planning.candidates import Candidates, grouped
from scalecurve.render.table import Column, Table, table_of


@dataclass(frozen=True)
class Round:
    """Trials of one length; without ties, of which a rung lets up to as many again pass."""

    name: str
    points: int
    trials: int
    steps: int

    @property
    def all_steps(self) -> int:
        """Timed steps of all its trials."""
        return self.trials * self.steps


def rounds(candidates: Candidates) -> list[Round]:
    """List the rungs, the full trials of the finalists, and what the full grid would be."""
    measure = candidates.experiment.spec.measure
    full, repetitions = measure.windows * measure.steps_per_window, measure.most_repetitions
    sizes = [len(members) for members in grouped(candidates.points).values()]
    made = []
    for rung in rungs(candidates.largest_group, measure):
        entering = sum(size for size in sizes if size > FINALISTS)
        made.append(Round(f"rung {rung.number}", entering, entering, rung.windows * rung.steps_per_window))
        sizes = [quota(size) if size > FINALISTS else size for size in sizes]
    points = len(candidates.points)
    finalists = sum(sizes)
    made.append(Round("finalists", finalists, finalists * repetitions, full))
    return [*made, Round("full grid", points, points * repetitions, full)]


def round_table(candidates: Candidates) -> Table:
    """Tabulate the rounds, a row each, and one for the grid that the search replaces."""
    return table_of(
        "search",
        "Search",
        rounds(candidates),
        (
            (Column("round", "Round"), lambda row: row.name),
            (Column("points", "Points", "count"), lambda row: row.points),
            (Column("trials", "Trials", "count"), lambda row: row.trials),
            (Column("steps", "Steps each", "count"), lambda row: row.steps),
            (Column("all_steps", "Steps in all", "count"), lambda row: row.all_steps),
        ),
        ("Ties may let up to twice as many pass a rung. Steps are the timed ones, without warm-up.",),
    )


def refusal_table(candidates: Candidates) -> Table:
    """Tabulate the points that cannot run, a row each."""
    return table_of(
        "refused",
        "Dropped before a trial",
        candidates.refused,
        (
            (Column("mode", "Mode"), lambda each: each.point.mode.value),
            (Column("workers", "Workers", "count"), lambda each: each.point.workers),
            (Column("layout", "Layout"), lambda each: each.point.axes_in_words),
            (Column("ground", "Ground"), lambda each: each.ground.value),
            (Column("why", "Why"), lambda each: each.why),
        ),
    )
