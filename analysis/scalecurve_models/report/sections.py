"""The sections that the models add to a report: tables, and sentences on how their numbers were obtained."""

from __future__ import annotations

from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import Body, section
from scalecurve_models.report.model_results import model_results

_UNTESTED = "No model could be tested: that takes a worker count more than were run. scalecurve fit shows what it fits."
_PREDICTION_METHOD = (
    "A prediction beside a measurement was made by a fit that did not see that point; the best model of a "
    "curve has the smallest mean error at such points. Run time and cost follow from the predicted throughput. "
    "What the points cannot tell has no value, and the note beside it says why."
)
_PUBLISHED_METHOD = (
    "Published curves are others' printed figures of the same network; none was measured or checked here."
)


@section("learning", "Loss and target", order=90)
def _learning(findings: Findings) -> Body:
    return Body(findings.once(model_results).learning_tables())


@section("predicted", "Predicted beside measured", order=100)
def _predicted(findings: Findings) -> Body:
    results = findings.once(model_results)
    return Body(
        results.beside_tables(),
        sentences=(_UNTESTED,) if results.judged and not results.shown else (),
        methods=(_PREDICTION_METHOD,) if results.judged else (),
    )


@section("published", "Beside published curves", order=110)
def _published(findings: Findings) -> Body:
    """Only where a measured weak curve stands beside them."""
    results = findings.once(model_results)
    weak = any(curve.series.mode == "weak" for curve in results.judged)
    return Body(results.published_tables() if weak else (), methods=(_PUBLISHED_METHOD,) if results.published else ())


@section("allreduce-models", "All-reduce models", order=130)
def _allreduce_models(findings: Findings) -> Body:
    return Body(findings.once(model_results).collective_tables())
