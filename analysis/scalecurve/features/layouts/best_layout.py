"""Which layout is the fastest at each worker count, beyond noise: the best one, judged against every other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries
from scalecurve.curves.along_axes import less_one, spelled
from scalecurve.render import formatting
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve.statistics.comparison import Change, Pair, changes
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.intervals import ratio, throughput
from scalecurve_api.model import canonical_json
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count, few

PREFIX = "parallelism."
NOTES = (
    "Best = highest throughput of the layouts of one worker count, which train on equal batches. Its lead is over the "
    "runner-up; the verdict holds it against every other layout, with p values after Holm, of trials run by turns.",
)
Compared = Callable[[str], bool]


class Standing(StrEnum):
    """A layout against the best one of its group."""

    best = "best"
    tied = "tied with the best"
    slower = "slower"
    undecided = "undecided"


@dataclass(frozen=True)
class Member:
    """A layout of a group; ``of_best`` is its throughput over the best one's."""

    point: Point
    of_best: Estimate
    standing: Standing


@dataclass(frozen=True)
class BestLayout:
    """The fastest of several layouts that share a worker count, a mode, and all axes but those of the layout.

    ``members`` are all of them, the fastest first; ``p_value`` is the largest of all rivals. ``lead`` and
    ``over_replicas`` are ratios of throughputs less one.
    """

    bundle: str
    point: Point
    rest: str
    members: tuple[Member, ...]
    throughput: Estimate
    over_replicas: Estimate | None
    runner_up: str
    lead: Estimate
    p_value: float | None

    @property
    def layout(self) -> str:
        return self.point.axes_in_words

    @property
    def rivals(self) -> int:
        return len(self.members) - 1

    @property
    def tied(self) -> tuple[str, ...]:
        """Rivals that noise does not tell from the best."""
        return tuple(member.point.axes_in_words for member in self.members if member.standing is Standing.tied)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Rivals that too few repetitions leave open."""
        return tuple(member.point.axes_in_words for member in self.members if member.standing is Standing.undecided)

    @property
    def verdict(self) -> str:
        if self.undecided:
            return f"undecided against {few(self.undecided, 3)}: one repetition"
        if self.tied:
            return f"tied with {few(self.tied, 3)}"
        least = "< 0.01 %" if self.p_value is not None and self.p_value < 1e-4 else None
        chance = least or (formatting.percent(self.p_value, 2) if self.p_value is not None else "not known")
        return f"fastest of {self.rivals + 1} (p {chance})"


def best_layouts(
    series: Sequence[MeasuredSeries], level: float = 0.95, compared: Compared | None = None
) -> tuple[BestLayout, ...]:
    """Find the best layout at every worker count with several; ``compared`` are the axes whose combinations compete."""
    competes = compared or (lambda axis: axis.startswith(PREFIX))
    groups: dict[tuple[str, str, int, str, str], list[MeasuredPoint]] = {}
    for one in series:
        for measured in one.points if one.trains else ():
            point = measured.point
            if not measured.timed or (compared is None and point.parallelism is None):
                continue
            rest = {name: value for name, value in point.axes.items() if not competes(name)}
            key = one.bundle, point.mode.value, point.workers, point.layout, canonical_json(rest)
            groups.setdefault(key, []).append(measured)
    order = sorted(groups, key=lambda key: (key[0], key[1], key[4], key[2]))
    return tuple(_best(key[0], groups[key], competes, level) for key in order if len(groups[key]) > 1)


def layout_table(results: Sequence[BestLayout]) -> Table:
    """Tabulate the best layouts, a row for each worker count."""
    return table_of(
        "layouts",
        "Best layout",
        results,
        (
            (experiment_column(r.bundle for r in results), lambda r: r.bundle),
            (Column("mode", "Mode"), lambda r: r.point.mode.value),
            (Column("workers", "Workers", "count"), lambda r: r.point.workers),
            (Column("nodes", "Nodes", "count", detail=True), lambda r: r.point.nodes),
            (Column("rest", "At"), lambda r: r.rest or None),
            (Column("best", "Best layout"), lambda r: r.layout),
            (Column("throughput", "Throughput", "number", "per second", interval=True), lambda r: r.throughput),
            (Column("over_replicas", "Over replicas", "percent", interval=True), lambda r: r.over_replicas),
            (Column("runner_up", "Runner-up"), lambda r: r.runner_up),
            (Column("lead", "Lead", "percent", interval=True), lambda r: r.lead),
            (Column("verdict", "Verdict"), lambda r: r.verdict),
        ),
        NOTES if results else (),
    )


def best_in_words(results: Sequence[BestLayout]) -> Iterator[str]:
    """Yield a sentence for each worker count."""
    for result in results:
        at = f"{result.point.mode.value} at {count(result.point.workers, 'worker')}"
        at += f" ({result.rest})" if result.rest else ""
        lead = f"{formatting.interval(result.lead, as_percent=True)} ahead of {result.runner_up}"
        yield f"{at}: {result.layout} is best, {lead}; {result.verdict}"


def _best(bundle: str, members: Sequence[MeasuredPoint], competes: Compared, level: float) -> BestLayout:
    ranked = sorted(members, key=lambda member: -throughput(member.samples, level).value)
    best, rivals = ranked[0], ranked[1:]
    judged = changes([Pair(rival.samples, best.samples, in_turns=True) for rival in rivals], level)
    others = (
        Member(rival.point, ratio(rival.samples, best.samples, level), _STANDINGS[change.changed])
        for rival, change in zip(rivals, judged, strict=True)
    )
    itself = Member(best.point, Estimate(1.0, 1.0, 1.0, level, Method.DEFINITION, len(best.samples)), Standing.best)
    replicas = next((member for member in members if _only_replicas(member.point)), None)
    over = replicas is not None and replicas is not best
    rest = ((name, value) for name, value in best.point.axes.items() if not competes(name))
    return BestLayout(
        bundle=bundle,
        point=best.point,
        rest=", ".join(f"{name}={spelled(value)}" for name, value in rest),
        members=(itself, *others),
        throughput=throughput(best.samples, level, best.noise),
        over_replicas=less_one(ratio(best.samples, replicas.samples, level)) if replicas and over else None,
        runner_up=rivals[0].point.axes_in_words,
        lead=less_one(ratio(best.samples, rivals[0].samples, level)),
        p_value=_largest(judged),
    )


_STANDINGS = {True: Standing.slower, False: Standing.tied, None: Standing.undecided}
"""By whether a change was shown"""


def _largest(judged: Sequence[Change]) -> float | None:
    values = [change.adjusted_p for change in judged if change.adjusted_p is not None]
    return max(values) if len(values) == len(judged) else None


def _only_replicas(point: Point) -> bool:
    return point.parallelism is not None and point.parallelism.replicate == point.workers
