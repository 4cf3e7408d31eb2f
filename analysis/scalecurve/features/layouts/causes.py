"""The bubble of every pipeline: as it was observed, as its formula has it, and what lies between the two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.curves.explain import FurtherCauses
from scalecurve.render import formatting
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.mean import mean
from scalecurve_api.features.layouts.facts import PIPELINE, PipelineTimes
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

NOTES = (
    "Bubble = share of the workers' time in which they neither compute nor are needed to; observed in untimed steps, "
    "as 1 - own time / time from the first pass to the last.",
    "Formula = (p-1)/(m+p-1) for p workers and m micro-batches, m times 2 for schedule interleaved: equal stages, "
    "sending in no time. Uneven stages = what the observed stages' times add; rest = sending, waiting, and noise.",
)
NOTABLE = 0.05
"""Of a step: more than this from uneven stages is worth a sentence"""


@dataclass(frozen=True)
class PipelineResult:
    """The pipelines of a point over its repetitions; ``uneven`` and ``rest`` add up with ``formula`` to ``bubble``.

    ``slowest`` is the place, from 1, of the worker with the most own time, and ``above`` that time over the mean.
    """

    bundle: str
    point: Point
    times: PipelineTimes
    bubble: Estimate
    uneven: float
    rest: float
    slowest: int
    above: float

    @property
    def formula(self) -> float:
        return self.times.expected_bubble


def pipelines(bundles: Sequence[Bundle], level: float = 0.95) -> tuple[PipelineResult, ...]:
    """Compute the pipelines of every point whose valid trials have a pipeline."""
    records: dict[tuple[str, str], list[tuple[Point, PipelineTimes]]] = {}
    for bundle in bundles:
        for trial in bundle.trials:
            times = PIPELINE.of(trial.record) if trial.good and trial.record is not None else None
            if times is not None:
                key = bundle.label, trial.spec.point.name
                records.setdefault(key, []).append((trial.spec.point, times))
    return tuple(_result(label, members, level) for (label, _), members in records.items())


def pipeline_table(results: Sequence[PipelineResult]) -> Table:
    """Tabulate the pipelines, a row for each point."""
    return table_of(
        "pipelines",
        "Pipelines",
        results,
        (
            (experiment_column(r.bundle for r in results), lambda r: r.bundle),
            (Column("series", "Series"), lambda r: r.point.series),
            (Column("workers", "Workers", "count"), lambda r: r.point.workers),
            (Column("schedule", "Schedule"), lambda r: r.times.schedule),
            (Column("stages", "Stages", "count"), lambda r: r.times.workers * r.times.stages_per_worker),
            (Column("micro_batches", "Micro-batches", "count"), lambda r: r.times.micro_batches),
            (Column("bubble", "Bubble", "percent", interval=True), lambda r: r.bubble),
            (Column("formula", "Formula", "percent"), lambda r: r.formula),
            (Column("uneven", "Uneven stages", "percent"), lambda r: r.uneven),
            (Column("rest", "Rest", "percent"), lambda r: r.rest),
            (Column("slowest", "Slowest worker", "count"), lambda r: r.slowest),
            (Column("above", "Its time over the mean", "number"), lambda r: r.above),
        ),
        NOTES if results else (),
    )


def uneven_stages(results: Sequence[PipelineResult]) -> Iterator[str]:
    """Yield a sentence for each pipeline whose stages take notably different times."""
    for result in results:
        if result.uneven < NOTABLE:
            continue
        share = formatting.percent(result.uneven)
        place = f"worker {result.slowest} of the {result.times.workers} of its pipeline"
        yield (
            f"{result.point.series} at {count(result.point.workers, 'worker')}: uneven stages cost {share} of a step: "
            f"{place} computes {result.above:.2f} times the mean; move layers away from it"
        )


def causes(bundles: Sequence[Bundle], level: float) -> FurtherCauses:
    """Say what pipelines cost, for ``explain`` (entry point ``scalecurve.causes``)."""
    results = pipelines(bundles, level)
    return FurtherCauses((pipeline_table(results),) if results else (), tuple(uneven_stages(results)))


def _result(label: str, members: Sequence[tuple[Point, PipelineTimes]], level: float) -> PipelineResult:
    point, first = members[0]
    times = [each for _, each in members]
    bubble = mean([each.bubble for each in times], level, most=1.0)
    own = [sum(column) / len(times) for column in zip(*(each.own_s for each in times), strict=False)]
    together = first.model_copy(update={"own_s": own})
    uneven = together.uneven_bubble - first.expected_bubble
    return PipelineResult(
        bundle=label,
        point=point,
        times=together,
        bubble=bubble,
        uneven=uneven,
        rest=bubble.value - first.expected_bubble - uneven,
        slowest=together.slowest + 1,
        above=max(own) * len(own) / sum(own) if sum(own) > 0 else 1.0,
    )
