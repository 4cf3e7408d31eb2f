"""Why a curve bends: the lost efficiency of every point as terms that add up to it, and what the largest is worth.

A feature adds causes of its own by an entry point in the group ``scalecurve.causes``: a function of bundles and a level
that returns a ``FurtherCauses``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType

from scalecurve.bundle.open import Bundle
from scalecurve.curves.anatomy import HOST, IMBALANCE, OPTIMIZER, SERVER, TRANSFER
from scalecurve.curves.compute import scaling
from scalecurve.curves.losses import COMMUNICATION, COMPUTE, INPUT, KEPT, UNKNOWN, StepShares, Term, losses_along
from scalecurve.curves.missing import missing_curves
from scalecurve.curves.terms import ParallelEfficiency
from scalecurve.curves.traces import TracedPoint, trace_tables, traced_points
from scalecurve.render import formatting
from scalecurve.render.notebook import SeveralTables
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve_api.registry import Registry
from scalecurve_api.spec.experiment import AxisValue, ScalingExperiment
from scalecurve_api.text import count
from scalecurve_api.validation.document import write_documents
from scalecurve_api.validation.validate import validate_text

SECTIONS = "sections of untimed steps, against the baseline's"
EVIDENCE = {
    KEPT: "throughput against the baseline's",
    COMMUNICATION: "steps with communication against steps without, by turns in the same trials",
    INPUT: "time in the data loader beyond the baseline's",
    COMPUTE: "what is left: steps without communication against the baseline's",
    UNKNOWN: "remainder (communication not measured)",
}
BY_SECTIONS = {
    KEPT: EVIDENCE[KEPT],
    COMMUNICATION: "the step less the slowest worker's own work",
    SERVER: "time between a gradient's sending and the parameters' return",
    IMBALANCE: "own work of the slowest worker against the typical one's",
    INPUT: SECTIONS,
    TRANSFER: SECTIONS,
    COMPUTE: "forward and backward passes without waiting, against the baseline's",
    OPTIMIZER: SECTIONS,
    HOST: "time in no section, against the baseline's",
    UNKNOWN: "in no identifiable section",
}
ADVICE = {
    COMMUNICATION: "larger batches per worker, gradient accumulation, other bucket sizes, compression, a faster link",
    INPUT: "more loader workers, faster storage, or data closer to the device",
    COMPUTE: "a larger batch per worker; at the same batch, look for lower clocks and neighbors (scalecurve diagnose)",
    SERVER: "more servers, asynchronous updates, or all-reduce in their place",
    IMBALANCE: "find what slows the slowest worker down: its clocks, its neighbors, its share of the data (diagnose)",
    TRANSFER: "pinned memory and copies that overlap with computing",
    OPTIMIZER: "a fused optimizer, or its state shared out (ZeRO)",
    HOST: "do less per step in the training loop: logging, .item(), Python between passes; larger batches",
    UNKNOWN: "measure communication apart: measure.exposedCommunication, with a strategy that can step without it",
}
SPLIT_AGAIN = "measure again with more windows (measure.windows) while nothing else runs"
TESTS: Mapping[str, Mapping[str, tuple[AxisValue, ...]]] = {
    COMMUNICATION: {"options.bucketCapMb": (5, 25, 100), "options.gradientAccumulation": (1, 4)},
    INPUT: {"data.loaderWorkers": (0, 2, 8)},
    SERVER: {"parameterServer.servers": (1, 2, 4)},
    HOST: {"options.compile": (False, True)},
    COMPUTE: {"options.compile": (False, True)},
}
"""Axes that test a cause, the first that the program has."""
_OF_FEATURES: Registry[FunctionType] = Registry("scalecurve.causes", "causes", FunctionType, {})


@dataclass(frozen=True)
class FurtherCauses:
    """What a feature shows of why curves bend, beside the terms of a step."""

    tables: tuple[Table, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation(SeveralTables):
    """The bars of every point beyond the baseline, by bundle; what features add, and the traces of all points."""

    bars: tuple[tuple[str, StepShares], ...]
    further: tuple[FurtherCauses, ...] = ()
    traced: tuple[TracedPoint, ...] = ()
    missing: tuple[str, ...] = ()
    """Why curves or points of them are not there."""

    def tables(self) -> list[Table]:
        """The terms, POP's factors where ranks' own work is known, those of features, and traced steps."""
        factors = [(bundle, bar) for bundle, bar in self.bars if bar.pop is not None]
        return [
            self.table(),
            *([_factors(factors)] if factors else []),
            *(table for each in self.further for table in each.tables),
            *trace_tables(self.traced),
        ]

    def table(self) -> Table:
        """One row a term; the shares of a point add up to its step."""
        rows = [(bundle, bar, term) for bundle, bar in self.bars for term in bar.terms]
        notes = ["The terms of a point add up to its step."] if rows else []
        if not rows and not self.missing:
            notes = ["No measured point is slower than ideal."]
        return table_of(
            "explain",
            "Why it bends",
            rows,
            (
                (experiment_column(bundle for bundle, _ in self.bars), lambda row: row[0]),
                (Column("series", "Series"), lambda row: row[1].series),
                (Column("workers", "Workers", "count"), lambda row: row[1].workers),
                (Column("against", "Against", "count"), lambda row: row[1].against),
                (Column("kind", "Kind", detail=True), lambda row: row[2].kind),
                (Column("term", "Term"), lambda row: row[2].label),
                (
                    Column("share", "Share of step", "percent", interval=True),
                    lambda row: row[2].measured or row[2].share,
                ),
                (Column("evidence", "Evidence"), lambda row: _evidence(row[1], row[2])),
            ),
            [*notes, *self.missing],
        )

    def advice(self) -> Iterator[str]:
        """A line for each curve: the largest term at its largest count, what it is worth at most, and what may help."""
        last = {(bundle, bar.series): bar for bundle, bar in self.bars}
        several = len({bundle for bundle, _ in self.bars}) > 1
        for (bundle, _), bar in last.items():
            largest, lost = bar.largest, 1 - bar.terms[0].share
            name = f"{bundle}, {bar.series}" if several else bar.series
            if bar.refused:
                yield f"{name} at {count(bar.workers, 'worker')}: not split: {bar.refused}; {SPLIT_AGAIN}"
            if largest is None:
                continue
            worth = f"at most {formatting.percent(largest.share)} of a step, of {formatting.percent(lost)} lost"
            yield f"{name} at {count(bar.workers, 'worker')}: {largest.label} is worth {worth}: {ADVICE[largest.kind]}"
        yield from (line for each in self.further for line in each.advice)


def _evidence(bar: StepShares, term: Term) -> str:
    if bar.refused and term.kind == UNKNOWN:
        return f"not split: {bar.refused}"
    return (BY_SECTIONS if bar.sectioned else EVIDENCE)[term.kind]


def _factors(bars: Sequence[tuple[str, StepShares]]) -> Table:
    def share(of: Callable[[ParallelEfficiency], float]) -> Callable[[tuple[str, StepShares]], float | None]:
        return lambda row: of(row[1].pop) if row[1].pop is not None else None

    return table_of(
        "pop",
        "POP's efficiencies",
        bars,
        (
            (experiment_column(bundle for bundle, _ in bars), lambda row: row[0]),
            (Column("series", "Series"), lambda row: row[1].series),
            (Column("workers", "Workers", "count"), lambda row: row[1].workers),
            (Column("load_balance", "Load balance", "percent"), share(lambda pop: pop.load_balance)),
            (Column("communication", "Communication", "percent"), share(lambda pop: pop.communication)),
            (Column("parallel", "Parallel", "percent"), share(lambda pop: pop.parallel)),
            (Column("computation", "Computation scaling", "percent"), share(lambda pop: pop.computation)),
            (Column("overall", "Global", "percent"), share(lambda pop: pop.overall)),
        ),
        ["Parallel = load balance x communication; global = parallel x computation scaling, as POP defines them."],
    )


def explain(bundles: Sequence[Bundle], level: float = 0.95) -> Explanation:
    """Split the efficiency that every curve loses into its causes, without points that do not count.

    Args:
        bundles: What `open_bundles` returned; their labels differ.
        level: Level of the intervals, 0.95 for 95 %.

    Returns:
        For every curve the terms of a step, in seconds and as shares, and what remains unexplained.
    """
    result = scaling(bundles, level)
    bars = tuple((series.bundle, bar) for series in result.curves().series for bar in losses_along(series))
    missing = tuple(map(str, missing_curves(bundles, result, paths=True)))
    if not missing and not result.curves().compared:
        missing = ("No training has two worker counts: nothing to compare.",)
    further = tuple(causes(bundles, level) for causes in _OF_FEATURES.loadable().values())
    return Explanation(bars, further, traced_points(bundles), missing)


def experiment_that_tests(explanation: Explanation, experiment: ScalingExperiment) -> ScalingExperiment | None:
    """The experiment with an axis more, which tests the largest cause that an axis of its program can test.

    None where there is none.
    """
    terms = sorted((bar.largest for _, bar in explanation.bars if bar.largest), key=lambda term: -term.share)
    for term in terms:
        for path, values in TESTS.get(term.kind, {}).items():
            if path not in experiment.spec.matrix and (test := _add_axis(experiment, path, values)):
                return test
    return None


def _add_axis(experiment: ScalingExperiment, path: str, values: Sequence[AxisValue]) -> ScalingExperiment | None:
    tree = experiment.wire()
    tree["metadata"]["name"] = f"{tree['metadata']['name'][:58]}-test"
    tree["spec"].setdefault("matrix", {})[path] = list(values)
    text = write_documents([tree])
    checked = validate_text(text, "experiment.yaml")
    return checked.experiments[0] if not checked.problems else None
