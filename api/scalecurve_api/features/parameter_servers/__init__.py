"""Manifest of the feature parameter servers."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "parameter_servers",
    "Train PyTorch models with parameter servers.",
    {
        "scalecurve.torch_strategies": {
            "parameter-server": "scalecurve_api.features.parameter_servers.fields:PARAMETER_SERVER",
        },
        "scalecurve_worker.torch_strategies": {
            "parameter-server": "scalecurve_worker.features.parameter_servers.worker:PARAMETER_SERVER",
        },
        "scalecurve.facts": {
            "pushes": "scalecurve_api.features.parameter_servers.facts:PUSHES",
            "servers": "scalecurve_api.features.parameter_servers.facts:SERVERS",
        },
    },
    order=50,
)
