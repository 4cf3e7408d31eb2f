"""Manifest of the feature accuracy."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "accuracy",
    "Train to an accuracy: evaluations between epochs, time to the target, and what the data was.",
    {
        "scalecurve.facts": {"evaluations": "scalecurve_api.features.accuracy.facts:EVALUATIONS"},
        "scalecurve.commands": {"training": "scalecurve.features.accuracy.verbs:VERBS"},
        "scalecurve.sections": {"training_results": "scalecurve.features.accuracy.sections"},
        "scalecurve.plots": {
            "accuracy": "scalecurve.features.accuracy.plots.accuracy",
            "classes": "scalecurve.features.accuracy.plots.classes",
            "error_over_batch": "scalecurve.features.accuracy.plots.error_over_batch",
            "images": "scalecurve.features.accuracy.plots.images",
            "training": "scalecurve.features.accuracy.plots.training",
            "training_axes": "scalecurve.features.accuracy.plots.training_axes",
        },
    },
)
