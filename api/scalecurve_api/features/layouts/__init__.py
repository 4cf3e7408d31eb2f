"""Manifest of the feature layouts."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "layouts",
    "Split one model over workers: tensor, pipeline, context and expert parallelism.",
    {
        "scalecurve.torch_strategies": {"mesh": "scalecurve_api.features.layouts.fields:MESH"},
        "scalecurve_worker.torch_strategies": {"mesh": "scalecurve_worker.features.layouts.program:MESH"},
        "scalecurve.facts": {
            "axisTraffic": "scalecurve_api.features.layouts.facts:AXIS_TRAFFIC",
            "equality": "scalecurve_api.features.layouts.facts:EQUALITY",
            "layout": "scalecurve_api.features.layouts.facts:LAYOUT",
            "pipeline": "scalecurve_api.features.layouts.facts:PIPELINE",
        },
        "scalecurve.after_run": {"layouts": "scalecurve.features.layouts.after_run:BEST_LAYOUTS"},
        "scalecurve.causes": {"pipelines": "scalecurve.features.layouts.causes:causes"},
        "scalecurve.sections": {"layouts": "scalecurve.features.layouts.sections"},
        "scalecurve.plots": {"layouts": "scalecurve.features.layouts.plots"},
    },
    order=60,
)
