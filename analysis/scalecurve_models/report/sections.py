"""The sections that the models add to a report: tables, and how their numbers were obtained."""

from scalecurve.curves.compute import believable
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import Body, section
from scalecurve_models.comparison.factors import factor_table
from scalecurve_models.fitting.separability import RULE
from scalecurve_models.report.beside_paleo import paleo_body
from scalecurve_models.report.model_results import model_results

_UNTESTED = "No model could be tested; that needs one more worker count. scalecurve fit shows the fits."
_PREDICTION_METHOD = (
    f"Each measured point is predicted by a fit without it. {RULE} Run time and cost follow from the predicted "
    "throughput. Parameters that are not identifiable have no value, and a note says why."
)
_PUBLISHED_METHOD = (
    "Published curves are figures printed by others for the same network; none was measured or verified here."
)


@section("learning", "Loss and target", order=90, question="train")
def _loss_and_target(analysis: Analysis) -> Body:
    return Body(analysis.once(model_results).tabulate_learning())


@section("predicted", "Predicted vs. measured", order=100, question="predict")
def _predictions(analysis: Analysis) -> Body:
    results = analysis.once(model_results)
    return Body(
        results.comparison_tables(),
        sentences=(_UNTESTED,) if results.testable and not results.shown else (),
        methods=(_PREDICTION_METHOD,) if results.testable else (),
    )


@section("paleo", "Paleo and measurement", order=102, question="predict")
def _paleo(analysis: Analysis) -> Body:
    """Shown where the report is made for a device."""
    return paleo_body(analysis)


@section("factors", "Factors", order=105, question="predict")
def _factors(analysis: Analysis) -> Body:
    """Shown with several bundles: what their devices, networks and years change."""
    if len(analysis.bundles) < 2:
        return Body()
    return Body((factor_table([believable(bundle) for bundle in analysis.bundles]),))


@section("published", "Published curves", order=110, question="predict")
def _literature_curves(analysis: Analysis) -> Body:
    """Shown only with a measured weak curve, or for curves that the user named."""
    results = analysis.once(model_results)
    weak = bool(analysis.published) or any(curve.series.mode == "weak" for curve in results.testable)
    return Body(results.publication_tables() if weak else (), methods=(_PUBLISHED_METHOD,) if results.published else ())


@section("allreduce-models", "Models of collectives", order=130, question="predict")
def _allreduce_models(analysis: Analysis) -> Body:
    return Body(analysis.once(model_results).collective_tables())
