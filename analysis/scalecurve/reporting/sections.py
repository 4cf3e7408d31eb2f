"""The sections of a report that the core has: tables; those of features, and plots, register themselves."""

from collections.abc import Callable, Sequence
from statistics import median

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve.bundle.open import Bundle
from scalecurve.bundle.step_summary import StepSummaries, StepSummary
from scalecurve.bundle.steps import QUANTILES
from scalecurve.checks.comparability import difference_table
from scalecurve.checks.environment import check_table, environment, environment_table
from scalecurve.checks.overhead import overhead_table, overheads
from scalecurve.curves.along_axes import axis_table, best_of
from scalecurve.curves.per_epoch import batch_table, epoch_split_table
from scalecurve.curves.tables import excluded_table, problem_table, scaling_table, side_by_side_table, split_table
from scalecurve.curves.traces import trace_tables, traced_points
from scalecurve.curves.traffic import wire_table
from scalecurve.render import formatting
from scalecurve.render.table import Column, Table, experiment_column
from scalecurve.reporting.contributions import contributions
from scalecurve.reporting.findings import Analysis, axis_results
from scalecurve.reporting.registry import Body, section
from scalecurve.reporting.trials import trial_table
from scalecurve_api.planning.ladder import LargestFit, largest_fits
from scalecurve_api.spec.experiment import LADDER_AXIS
from scalecurve_api.text import count, spell_value

_SHOWN = ((0.05, "5 %", "p5"), (0.5, "Median", "median"), (0.95, "95 %", "p95"), (0.99, "99 %", "p99"))


def _has_measurements(analysis: Analysis) -> bool:
    return any(series.measured for series in analysis.scaling.series)


def _scaling(analysis: Analysis) -> Body:
    table = scaling_table(analysis.curves)
    ladders = largest_batch_table(analysis.bundles)
    tables = (side_by_side_table(analysis.curves), table, batch_table(analysis.costs), ladders)
    return Body(tables, title=table.title, sentences=tuple(largest_in_words(analysis.bundles)))


def _axes(analysis: Analysis) -> Body:
    results = analysis.once(axis_results)
    return Body((axis_table(results),), sentences=tuple(best_of(results)))


def _time(analysis: Analysis) -> Body:
    if not _has_measurements(analysis):
        return Body()
    alone = {place: rate for each in contributions() for place, rate in each.bandwidths(analysis).items()}
    sent = wire_table(analysis.curves, analysis.bundles, alone)
    per_epoch = epoch_split_table(analysis.costs)
    return Body((split_table(analysis.curves), per_epoch, sent, step_table(analysis.measured, analysis.step_summaries)))


def _traces(analysis: Analysis) -> Body:
    return Body(tuple(trace_tables(traced_points(analysis.bundles))))


def _exclusions(analysis: Analysis) -> Body:
    return Body((excluded_table(analysis.scaling), problem_table(analysis.scaling, analysis.step_summaries.problems)))


def _environment(analysis: Analysis) -> Body:
    overhead = overhead_table(overheads(analysis.measured))
    return Body((check_table(analysis.bundles), overhead, environment_table(environment(analysis.bundles))))


_REPORT_SECTIONS: tuple[tuple[str, str, str, int, Callable[[Analysis], Body]], ...] = (
    ("scale", "scaling", "Scaling", 10, _scaling),
    ("scale", "axes", "Along each axis", 15, _axes),
    ("bend", "time", "Where the time goes", 20, _time),
    ("bend", "traces", "Traced steps", 27, _traces),
    (
        "cost",
        "cost",
        "Time and cost",
        30,
        lambda f: Body((f.costs.table(),) if _has_measurements(f) and f.costs.known else ()),
    ),
    ("bend", "diagnosis", "Diagnosis", 140, lambda f: Body(always=(f.diagnosis.table(),) if f.diagnosis.rows else ())),
    ("believe", "trials", "Trials", 145, lambda f: Body((trial_table(f.bundles),))),
    ("believe", "excluded", "Excluded trials and files", 150, _exclusions),
    ("believe", "comparability", "Comparability", 160, lambda f: Body((difference_table(f.differences),))),
    ("believe", "environment", "Environment", 170, _environment),
)
for _question, _name, _title, _order, _body in _REPORT_SECTIONS:
    section(_name, _title, order=_order, question=_question)(_body)


def step_table(series: Sequence[MeasuredSeries], step_summaries: StepSummaries) -> Table:
    """Tabulate each point: quantiles of the slowest rank's step (the median over repetitions), and who is slowest."""
    columns = (
        experiment_column(curve.bundle for curve in series),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout"),
        Column("steps", "Timed steps", "count"),
        *(Column(f"{name}_ms", title, "number", "ms") for _, title, name in _SHOWN),
        Column("max_ms", "Longest", "number", "ms"),
        Column("waiting", "Wait for slowest rank", "percent"),
        Column("often_slowest", "Most often slowest"),
    )
    rows = []
    for curve, p in ((each, p) for each in series for p in each.points):
        keys = [(curve.bundle, trial.name) for trial in p.trials]
        if summaries := [step_summaries.of[key] for key in keys if key in step_summaries.of]:
            rows.append((curve.bundle, curve.name, p.point.workers, p.point.layout, *_numbers(summaries)))
    notes = ("Step times are the slowest rank's; quantiles are the median over repetitions.",) if rows else ()
    return Table("steps", "Step times", columns, tuple(rows), notes)


def _numbers(summaries: Sequence[StepSummary]) -> tuple[int | float | str | None, ...]:
    shown = [QUANTILES.index(quantile) for quantile, _, _ in _SHOWN]
    quantiles = [median(summary.slowest[index] for summary in summaries) * 1e3 for index in shown]
    waiting = [summary.stragglers.cost for summary in summaries if summary.stragglers]
    return (
        sum(summary.steps for summary in summaries),
        *quantiles,
        max(summary.slowest[-1] for summary in summaries) * 1e3,
        median(waiting) if waiting else None,
        _slowest(summaries),
    )


def _slowest(summaries: Sequence[StepSummary]) -> str:
    ranks = len(summaries[0].ranks)
    if ranks == 1 or any(len(summary.ranks) != ranks for summary in summaries):
        return ""
    shares = [sum(summary.slowest_share[rank] for summary in summaries) / len(summaries) for rank in range(ranks)]
    rank = max(range(ranks), key=lambda index: (shares[index], -index))
    return f"rank {rank}: {formatting.percent(shares[rank], 0)}"


def largest_batch_table(bundles: Sequence[Bundle]) -> Table:
    """One row per worker count; empty where no experiment raises the batch until memory is full."""
    rows = [
        (bundle.label, _program(fit), fit.point.workers, fit.point.layout, fit.fits, fit.full)
        for bundle in bundles
        for fit in sorted(_fits(bundle), key=lambda fit: (_program(fit), fit.point.workers))
    ]
    columns = (
        experiment_column(row[0] for row in rows),
        Column("program", "Program"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout"),
        Column("fits", "Largest batch per worker that fit", "count"),
        Column("full", "First that did not", "count"),
    )
    notes = (
        "The batch was raised until a trial ran out of memory; larger batches were not run. Where no batch did, the "
        "ladder ended at its largest, and more may fit.",
    )
    return Table("largest-batch", "Largest batch that fits into memory", columns, tuple(rows), notes if rows else ())


def largest_in_words(bundles: Sequence[Bundle]) -> list[str]:
    """A sentence per ladder that ended."""
    sentences = []
    for bundle in bundles:
        for fit in sorted(_fits(bundle), key=lambda fit: (_program(fit), fit.point.workers)):
            if fit.full is None:
                continue
            largest = f"largest batch that fit: {fit.fits}" if fit.fits else "no batch fit"
            where = f"{count(fit.point.workers, 'worker')}" + (f" ({fit.point.layout})" if fit.point.nodes > 1 else "")
            parts = [bundle.label] * (len(bundles) > 1) + [_program(fit), where]
            sentences.append(f"{', '.join(parts)}: {largest} per worker; {fit.full} ran out of memory.")
    return sentences


def _fits(bundle: Bundle) -> list[LargestFit]:
    return largest_fits((trial.spec.point, trial.phase) for trial in bundle.trials)


def _program(fit: LargestFit) -> str:
    others = [f"{name}={spell_value(value)}" for name, value in fit.point.axes.items() if name != LADDER_AXIS]
    return " ".join([fit.point.mode.value, *others])
