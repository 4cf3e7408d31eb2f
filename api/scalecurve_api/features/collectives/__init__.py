"""Manifest of the feature collectives."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "collectives",
    "Time all-reduce and the other collectives by message size.",
    {
        "scalecurve.programs": {
            "allreduce": "scalecurve_api.programs.collectives:AllReduceWorkload",
            "collectives": "scalecurve_api.programs.collectives:CollectivesWorkload",
        },
        "scalecurve.facts": {
            "allreduce": "scalecurve_api.record.collective_row:ALLREDUCE",
            "collectives": "scalecurve_api.record.collective_row:COLLECTIVES",
        },
        "scalecurve.commands": {"collectives": "scalecurve.features.collectives.verbs:VERBS"},
        "scalecurve.after_run": {"collectives": "scalecurve.features.collectives.verbs:BANDWIDTHS"},
        "scalecurve.sections": {"collectives": "scalecurve.features.collectives.sections"},
        "scalecurve.plots": {"bandwidth": "scalecurve.features.collectives.plots"},
    },
    order=30,
)
