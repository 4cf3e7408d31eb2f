"""The verbs of the models: network, predict, fit and recommend (entry point ``scalecurve.commands``)."""

from scalecurve.cli.verbs import Verb

VERBS = {
    "network": Verb("scalecurve_models.cli.network", "Show a network's shapes, parameters and FLOPs."),
    "predict": Verb("scalecurve_models.cli.predict", "Predict step time and scaling, even before any run."),
    "fit": Verb("scalecurve_models.cli.fit", "Fit every model; compare predictions and measurements."),
    "recommend": Verb("scalecurve_models.cli.recommend", "Recommend the cheapest and the fastest worker count."),
}
