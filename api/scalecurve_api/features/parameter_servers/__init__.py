"""Manifest of the feature parameter servers."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "parameter_servers",
    "Train PyTorch models with parameter servers.",
    {
        "scalecurve.torch_strategies": {
            "parameter-server": "scalecurve_api.programs.strategies.parameter_server:PARAMETER_SERVER",
        },
        "scalecurve_worker.torch_strategies": {
            "parameter-server": "scalecurve_worker.extras.parameter_server.worker:PARAMETER_SERVER",
        },
        "scalecurve.facts": {
            "pushes": "scalecurve_api.record.facts.parameter_servers:PUSHES",
            "servers": "scalecurve_api.record.facts.parameter_servers:SERVERS",
        },
    },
    order=50,
)
