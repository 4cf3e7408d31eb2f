"""The verbs of the models: network, predict, fit and recommend (entry point ``scalecurve.commands``)."""

from scalecurve.cli.verbs import Verb

VERBS = {
    "network": Verb(
        "scalecurve_models.cli.network", "Show a network's shapes, parameters, FLOPs and receptive fields."
    ),
    "predict": Verb("scalecurve_models.cli.predict", "Predict step time and scaling, even before anything ran."),
    "fit": Verb("scalecurve_models.cli.fit", "Fit every model to the measured points; predicted against measured."),
    "recommend": Verb("scalecurve_models.cli.recommend", "Recommend the cheapest and the fastest worker count."),
}
