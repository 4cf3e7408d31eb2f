"""The sections of a report that the core has: tables; plots register themselves."""

from scalecurve.checks.comparability import difference_table
from scalecurve.checks.environment import check_table, environment, environment_table
from scalecurve.curves.tables import excluded_table, problem_table, scaling_table, side_by_side_table, split_table
from scalecurve.curves.traffic import wire_table
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import Body, section
from scalecurve.reporting.step_times import step_table


@section("scaling", "Scaling", order=10)
def _scaling(findings: Findings) -> Body:
    return Body((side_by_side_table(findings.curves), scaling_table(findings.curves)))


@section("time", "Where the time goes", order=20)
def _time(findings: Findings) -> Body:
    if not any(series.measured for series in findings.scaling.series):
        return Body()
    sent = wire_table(findings.curves, findings.bundles, findings.allreduce)
    return Body((split_table(findings.curves), sent, step_table(findings.measured, findings.digests)))


@section("cost", "Time and cost", order=30)
def _cost(findings: Findings) -> Body:
    measured = any(series.measured for series in findings.scaling.series)
    return Body((findings.costs.table(),) if measured and findings.costs.known else ())


@section("accuracy", "Training to accuracy", order=40)
def _accuracy(findings: Findings) -> Body:
    return Body(findings.training.of_accuracy())


@section("against-workers", "Accuracy against workers", order=50)
def _against_workers(findings: Findings) -> Body:
    return Body(findings.training.of_workers())


@section("data", "Data", order=60)
def _data(findings: Findings) -> Body:
    return Body(findings.training.of_data())


@section("noise-scale", "Gradient noise scale", order=70)
def _noise_scale(findings: Findings) -> Body:
    return Body(findings.training.of_noise())


@section("quantization", "Quantization", order=80)
def _quantization(findings: Findings) -> Body:
    return Body(findings.training.of_quantization())


@section("allreduce", "All-reduce", order=120)
def _allreduce(findings: Findings) -> Body:
    return Body((findings.allreduce.table(),))


@section("diagnosis", "Diagnosis", order=140)
def _diagnosis(findings: Findings) -> Body:
    return Body(always=(findings.diagnosis.table(),) if findings.digests.rows else ())


@section("left-out", "Excluded trials and files", order=150)
def _left_out(findings: Findings) -> Body:
    return Body((excluded_table(findings.scaling), problem_table(findings.scaling, findings.digests.problems)))


@section("comparability", "Comparability", order=160)
def _comparability(findings: Findings) -> Body:
    return Body((difference_table(findings.differences),))


@section("environment", "Environment", order=170)
def _environment(findings: Findings) -> Body:
    return Body((check_table(findings.bundles), environment_table(environment(findings.bundles))))
