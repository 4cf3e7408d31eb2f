"""The sections of a report that the core has: tables; plots register themselves."""

from collections.abc import Callable

from scalecurve.checks.comparability import difference_table
from scalecurve.checks.environment import check_table, environment, environment_table
from scalecurve.curves.along_axes import axis_table, best_of
from scalecurve.curves.best_layout import best_in_words, layout_table
from scalecurve.curves.largest_batch import largest_batch_table, largest_in_words
from scalecurve.curves.per_epoch import batch_table, epoch_split_table
from scalecurve.curves.pipelines import pipeline_table, pipelines, uneven_stages
from scalecurve.curves.tables import excluded_table, problem_table, scaling_table, side_by_side_table, split_table
from scalecurve.curves.traces import trace_tables, traced_points
from scalecurve.curves.traffic import wire_table
from scalecurve.planning.search_words import search_in_words, search_table
from scalecurve.reporting.among_published import published_section
from scalecurve.reporting.findings import Findings, axis_results, layout_results
from scalecurve.reporting.registry import Body, section
from scalecurve.reporting.step_times import step_table
from scalecurve.reporting.trials import trial_table


def _measured(findings: Findings) -> bool:
    return any(series.measured for series in findings.scaling.series)


def _scaling(findings: Findings) -> Body:
    table = scaling_table(findings.curves)
    ladders = largest_batch_table(findings.bundles)
    tables = (side_by_side_table(findings.curves), table, batch_table(findings.costs), ladders)
    return Body(tables, title=table.title, sentences=tuple(largest_in_words(findings.bundles)))


def _axes(findings: Findings) -> Body:
    results = findings.once(axis_results)
    return Body((axis_table(results),), sentences=tuple(best_of(results)))


def _layouts(findings: Findings) -> Body:
    results = findings.once(layout_results)
    return Body((layout_table(results),), sentences=tuple(best_in_words(results)))


def _search(findings: Findings) -> Body:
    found = [(bundle.label, bundle.search) for bundle in findings.bundles if bundle.search is not None]
    several = len(findings.bundles) > 1
    lines = [f"{label}: {line}" if several else line for label, record in found for line in search_in_words(record)]
    return Body(tuple(search_table(record) for _, record in found), sentences=tuple(lines))


def _time(findings: Findings) -> Body:
    if not _measured(findings):
        return Body()
    sent = wire_table(findings.curves, findings.bundles, findings.allreduce)
    per_epoch = epoch_split_table(findings.costs)
    return Body((split_table(findings.curves), per_epoch, sent, step_table(findings.measured, findings.digests)))


def _traces(findings: Findings) -> Body:
    return Body(tuple(trace_tables(traced_points(findings.bundles))))


def _pipelines(findings: Findings) -> Body:
    results = pipelines(findings.bundles)
    return Body((pipeline_table(results),), sentences=tuple(uneven_stages(results)))


def _left_out(findings: Findings) -> Body:
    return Body((excluded_table(findings.scaling), problem_table(findings.scaling, findings.digests.problems)))


def _environment(findings: Findings) -> Body:
    return Body((check_table(findings.bundles), environment_table(environment(findings.bundles))))


_SECTIONS: tuple[tuple[str, str, str, int, Callable[[Findings], Body]], ...] = (
    ("scale", "scaling", "Scaling", 10, _scaling),
    ("scale", "axes", "Along each axis", 15, _axes),
    ("scale", "layouts", "Best layout", 16, _layouts),
    ("scale", "search", "Search", 17, _search),
    ("scale", "among-published", "Among published systems", 18, published_section),
    ("bend", "time", "Where the time goes", 20, _time),
    ("bend", "pipelines", "Pipelines", 25, _pipelines),
    ("bend", "traces", "Traced steps", 27, _traces),
    ("cost", "cost", "Time and cost", 30, lambda f: Body((f.costs.table(),) if _measured(f) and f.costs.known else ())),
    ("train", "accuracy", "Training to accuracy", 40, lambda f: Body(f.training.of_accuracy())),
    ("train", "training-axes", "Training along each axis", 45, lambda f: Body(f.training.of_axes())),
    ("train", "against-workers", "Accuracy against workers", 50, lambda f: Body(f.training.of_workers())),
    ("train", "data", "Data", 60, lambda f: Body(f.training.of_data())),
    ("train", "noise-scale", "Gradient noise scale", 70, lambda f: Body(f.training.of_noise())),
    ("train", "quantization", "Quantization", 80, lambda f: Body(f.training.of_quantization())),
    ("bend", "allreduce", "All-reduce", 120, lambda f: Body((f.allreduce.table(),))),
    (
        "bend",
        "collectives",
        "Collectives",
        125,
        lambda f: Body((f.collectives.table(),) if f.collectives.results else ()),
    ),
    ("bend", "diagnosis", "Diagnosis", 140, lambda f: Body(always=(f.diagnosis.table(),) if f.digests.rows else ())),
    ("believe", "trials", "Trials", 145, lambda f: Body((trial_table(f.bundles),))),
    ("believe", "left-out", "Excluded trials and files", 150, _left_out),
    ("believe", "comparability", "Comparability", 160, lambda f: Body((difference_table(f.differences),))),
    ("believe", "environment", "Environment", 170, _environment),
)
for _question, _name, _title, _order, _body in _SECTIONS:
    section(_name, _title, order=_order, question=_question)(_body)
