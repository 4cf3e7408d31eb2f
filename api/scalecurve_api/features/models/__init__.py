"""Manifest of the feature models."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "models",
    "Predict by models of the field: Paleo, Optimus, scaling laws, goodput.",
    {
        "scalecurve.commands": {"models": "scalecurve_models.cli:VERBS"},
        "scalecurve.sections": {"models": "scalecurve_models.report.sections"},
        "scalecurve.plots": {"models": "scalecurve_models.report.plots"},
    },
)
