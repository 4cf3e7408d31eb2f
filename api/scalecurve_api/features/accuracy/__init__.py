"""Manifest of the feature accuracy."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "accuracy",
    "Train to an accuracy: evaluations between epochs, time to the target, and what the data was.",
    {
        "scalecurve.facts": {"evaluations": "scalecurve_api.record.facts.evaluations:EVALUATIONS"},
        "scalecurve.commands": {"training": "scalecurve.cli.training:VERBS"},
        "scalecurve.sections": {"training_results": "scalecurve.reporting.features.training_results"},
        "scalecurve.plots": {
            "accuracy": "scalecurve.reporting.plots.accuracy",
            "classes": "scalecurve.reporting.plots.classes",
            "error_over_batch": "scalecurve.reporting.plots.error_over_batch",
            "images": "scalecurve.reporting.plots.images",
            "training": "scalecurve.reporting.plots.training",
            "training_axes": "scalecurve.reporting.plots.training_axes",
        },
    },
)
