"""Manifest of the feature collectives."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "collectives",
    "Time all-reduce and the other collectives by message size.",
    {
        "scalecurve.programs": {
            "allreduce": "scalecurve_api.features.collectives.fields:AllReduceWorkload",
            "collectives": "scalecurve_api.features.collectives.fields:CollectivesWorkload",
        },
        "scalecurve.facts": {
            "allreduce": "scalecurve_api.features.collectives.facts:ALLREDUCE",
            "collectives": "scalecurve_api.features.collectives.facts:COLLECTIVES",
        },
        "scalecurve.commands": {"collectives": "scalecurve.features.collectives.verbs:VERBS"},
        "scalecurve.after_run": {"collectives": "scalecurve.features.collectives.verbs:BANDWIDTHS"},
        "scalecurve.sections": {"collectives": "scalecurve.features.collectives.sections"},
        "scalecurve.plots": {"bandwidth": "scalecurve.features.collectives.plots"},
    },
    order=30,
)
