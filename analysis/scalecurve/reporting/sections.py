"""What a report says, before it is HTML, Markdown or JSON: sections of sentences, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scalecurve.bundle.measurement import MeasuredSeries, measure
from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import Problem
from scalecurve.bundle.step_summary import Digests, digest_all
from scalecurve.checks.comparability import Difference, difference_table, differences
from scalecurve.checks.diagnose import Diagnosis, diagnose_from
from scalecurve.checks.environment import check_table, environment, environment_table
from scalecurve.curves.allreduce import AllReduceReport, allreduce
from scalecurve.curves.compute import Scaling, SeriesResult, scaling
from scalecurve.curves.cost import CostReport, SeriesCost, cost_of
from scalecurve.curves.tables import (
    excluded_table,
    problem_table,
    scaling_table,
    side_by_side_table,
    split_table,
)
from scalecurve.curves.traffic import wire_table
from scalecurve.render import formatting as spelling
from scalecurve.render.labels import shortened
from scalecurve.render.table import Table
from scalecurve.reporting.drawing import canvas
from scalecurve.reporting.drawing.canvas import Plot
from scalecurve.reporting.methods import methods
from scalecurve.reporting.plots.accuracy import accuracy
from scalecurve.reporting.plots.bandwidth import bandwidth
from scalecurve.reporting.plots.breakdown import split
from scalecurve.reporting.plots.curves import curves
from scalecurve.reporting.plots.images import pictures
from scalecurve.reporting.plots.noise_scale import noise
from scalecurve.reporting.plots.pareto import pareto
from scalecurve.reporting.plots.quantization import quantized
from scalecurve.reporting.plots.ranks import step_times
from scalecurve.reporting.plots.validation_error import errors
from scalecurve.reporting.step_times import step_table
from scalecurve.reporting.subject import subjects
from scalecurve.training_results import Training, of_series
from scalecurve.training_results.outcome import PointTraining
from scalecurve_api.spec.experiment import Cost
from scalecurve_models.report.collectives import collectives
from scalecurve_models.report.learning_curves import losses, targets
from scalecurve_models.report.model_results import Modelled, model
from scalecurve_models.report.predicted import predicted
from scalecurve_models.report.published_curves import overlay

_UNTESTED = "No model could be tested: that takes a worker count more than were run. scalecurve fit shows what it fits."


@dataclass(frozen=True)
class Section:
    """One heading with what stands under it; empty tables and missing plots are left out beforehand."""

    name: str
    title: str
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Content:
    """A whole report. ``subjects`` say what was measured, ``warnings`` what one must know before believing a number."""

    title: str
    subjects: tuple[str, ...]
    headlines: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def plots(self) -> tuple[Plot, ...]:
        """All plots in order."""
        return tuple(plot for section in self.sections for plot in section.plots)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables in order."""
        return tuple(table for section in self.sections for table in section.tables)


@dataclass(frozen=True)
class Findings:
    """Everything that the verbs have to say about the same bundles, each step table read once."""

    measured: tuple[MeasuredSeries, ...]
    scaling: Scaling
    costs: CostReport
    allreduce: AllReduceReport
    digests: Digests
    diagnosis: Diagnosis
    modelled: Modelled
    training: Training
    differences: tuple[Difference, ...]
    bundles: tuple[Bundle, ...] = field(repr=False)


def find(bundles: Sequence[Bundle], price: Cost | None = None, price_notes: Sequence[str] = ()) -> Findings:
    """Read and analyse; nothing is drawn yet. ``price`` takes the place of what the experiments say."""
    result = scaling(bundles)
    digests = digest_all(bundles)
    measured = tuple(series for bundle in bundles for series in measure(bundle))
    return Findings(
        measured=measured,
        scaling=result,
        costs=cost_of(result.curves(), bundles, price, price_notes),
        allreduce=allreduce(bundles),
        digests=digests,
        diagnosis=diagnose_from(bundles, digests),
        modelled=model(bundles, price),
        training=of_series(measured),
        differences=differences(bundles),
        bundles=tuple(bundles),
    )


def compose(found: Findings, draw: bool = True, png: bool = True) -> Content:
    """Put it into sections; ``draw`` and ``png`` save the time of plots that nobody asked for."""
    plots: dict[str, Plot] = {}
    if draw:
        with canvas.settings():
            plots = {plot.name: plot for plot in _plots(found, png)}
    sections = [section for section in _sections(found, plots) if section.plots or section.tables or section.sentences]
    return Content(
        title=", ".join(bundle.label for bundle in found.bundles),
        subjects=subjects(found.bundles),
        headlines=tuple(_headlines(found)),
        warnings=tuple(_warnings(found)),
        sections=tuple(sections),
    )


def _plots(found: Findings, png: bool) -> Iterator[Plot]:
    yield from curves(found.scaling.curves(), found.costs, png)
    yield from pareto(found.costs, png)
    yield from split(found.scaling.curves(), png)
    yield from step_times(found.measured, found.digests, png)
    yield from errors(found.training.points, png)
    yield from accuracy(found.training.points, png)
    yield from pictures(found.training.points, png)
    yield from noise(found.training.points, png)
    yield from quantized(found.training.points, png)
    yield from bandwidth(found.allreduce, png)
    yield from predicted(found.modelled.shown, png)
    yield from losses(found.modelled.learnt, png)
    yield from targets(found.modelled.learnt, png)
    yield from collectives(found.modelled.collectives, png)
    yield from overlay(found.modelled.published, found.scaling, png)


def _sections(found: Findings, plots: dict[str, Plot]) -> Iterator[Section]:
    def drawn(*names: str) -> tuple[Plot, ...]:
        return tuple(plots[name] for name in names if name in plots)

    measured = any(series.measured for series in found.scaling.series)
    yield Section(
        "scaling",
        "Scaling",
        drawn("speedup", "efficiency", "throughput"),
        _shown(side_by_side_table(found.scaling.curves()), scaling_table(found.scaling.curves())),
    )
    if measured:
        yield Section("time", "Where the time goes", drawn("split", "step-times"), _shown(*_time_tables(found)))
        cost_table = found.costs.table() if found.costs.known else None
        yield Section("cost", "Time and cost", drawn("epoch", "cost", "pareto", "energy"), _shown(cost_table))
    trained = found.training
    yield Section("accuracy", "Training to accuracy", drawn("error", "accuracy"), trained.of_accuracy())
    yield Section("against-workers", "Accuracy against workers", (), trained.of_workers())
    yield Section("data", "Data", drawn("pictures"), trained.of_data())
    yield Section("noise-scale", "Gradient noise scale", drawn("noise-scale"), trained.of_noise())
    yield Section(
        "quantization", "Quantization", drawn("quantization", "quantization-histograms"), trained.of_quantization()
    )
    models = found.modelled
    yield Section("learning", "Loss and target", drawn("loss", "time-to-target"), _shown(*models.learning_tables()))
    untested = (_UNTESTED,) if models.judged and not models.shown else ()
    yield Section(
        "predicted", "Predicted beside measured", drawn("predicted"), _shown(*models.beside_tables()), untested
    )
    yield Section("published", "Beside published curves", drawn("published"), _published(models))
    yield Section("allreduce", "All-reduce", drawn("allreduce"), _shown(found.allreduce.table()))
    yield Section(
        "allreduce-models", "All-reduce models", drawn("allreduce-models"), _shown(*models.collective_tables())
    )
    if found.digests.rows:
        yield Section("diagnosis", "Diagnosis", (), (found.diagnosis.table(),))
    yield Section(
        "left-out",
        "What does not count",
        (),
        _shown(excluded_table(found.scaling), problem_table(found.scaling, _table_problems(found))),
    )
    yield Section("comparability", "Comparability", (), _shown(difference_table(found.differences)))
    facts = environment(found.bundles)
    yield Section("environment", "Environment", (), _shown(check_table(found.bundles), environment_table(facts)))
    yield Section("methods", "How the numbers were obtained", sentences=tuple(methods(found)))


def _time_tables(found: Findings) -> tuple[Table, ...]:
    curves_ = found.scaling.curves()
    sent = wire_table(curves_, found.bundles, found.allreduce)
    return split_table(curves_), sent, step_table(found.measured, found.digests)


def _published(models: Modelled) -> tuple[Table, ...]:
    """Only where a measured curve stands beside them."""
    return _shown(*models.published_tables()) if any(each.series.mode == "weak" for each in models.judged) else ()


def _shown(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None and table.rows)


def _table_problems(found: Findings) -> tuple[tuple[str, Problem], ...]:
    return found.digests.problems


def _headlines(found: Findings) -> Iterator[str]:
    several = len(found.bundles) > 1
    best_count = {(c.series.bundle, c.series.name): _best(c) for c in found.costs.series if len(c.series.measured) > 1}
    series_found = found.scaling.curves().series
    short, _ = shortened(series.name for series in series_found)
    learnt = {(p.bundle, p.series): p for p in sorted(found.training.points, key=lambda p: p.point.workers)}
    for series in series_found:
        key = series.bundle, series.name
        said = short[series.name] + series.headline.removeprefix(series.name)
        said = f"{series.bundle}, {said}" if several else said
        yield said + best_count.get(key, "") + (_accuracy(learnt[key], series) if key in learnt else "")
    for point in found.allreduce.points:
        best = max(point.sizes, key=lambda size: size.busbw.median)
        where = f"{point.bundle}, " if several else ""
        yield (
            f"{where}all-reduce over {_workers(point.point.workers)} ({point.point.layout}): "
            f"{spelling.number(best.busbw.median)} GB/s of bus bandwidth at {spelling.size(best.bytes)}"
        )


def _accuracy(trained: PointTraining, series: SeriesResult) -> str:
    """What the largest count that was evaluated came to."""
    said = f"; accuracy {spelling.percent_interval(trained.final)} after {_count(trained.epochs, 'epoch')}"
    largest = max((p.workers for p in series.points if p.measured), default=None)
    return said if trained.point.workers == largest else f"{said} on {_workers(trained.point.workers)}"


def _best(costs: SeriesCost) -> str:
    """Which count is cheapest and which fastest, where there is a price; what noise hides is said."""
    if costs.cheapest is None or costs.fastest is None:
        return ""
    cheapest = f"{_workers(costs.cheapest)}{_as_good(costs.as_cheap)}"
    fastest = f"{_workers(costs.fastest)}{_as_good(costs.as_fast)}"
    return (
        f"; cheapest and fastest at {cheapest}"
        if cheapest == fastest
        else f"; cheapest at {cheapest}, fastest at {fastest}"
    )


def _as_good(counts: Sequence[int]) -> str:
    return f" (not told apart from {', '.join(map(str, counts))})" if counts else ""


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _warnings(found: Findings) -> Iterator[str]:
    problems = [*found.scaling.problems, *_table_problems(found)]
    if problems:
        yield f"{_count(len(problems), 'file')} could not be used; the rest is shown."
    if found.scaling.excluded:
        yield f"{_count(len(found.scaling.excluded), 'trial')} ended as Invalid, Failed or Cancelled: in no curve."
    if found.scaling.unfinished():
        yield f"{_count(found.scaling.unfinished(), 'trial')} not finished; such points show ?."
    if found.differences:
        names = ", ".join(dict.fromkeys(difference.what for difference in found.differences))
        yield f"Points of one curve differ in: {names}."
    doubtful = [str(row[1]) for row in check_table(found.bundles).rows if row[3]]
    if doubtful:
        yield f"Checks that did not pass in trials that are shown: {', '.join(dict.fromkeys(doubtful))}."
    if found.diagnosis.findings:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in found.diagnosis.findings))
        yield f"Noticed in step times: {kinds}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
