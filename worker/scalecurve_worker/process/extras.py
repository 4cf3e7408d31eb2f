"""Optional parts of the programs: each is loaded when a trial uses it, and nothing else imports it."""

from __future__ import annotations

from typing import Any

from scalecurve_api.registry import load

EXTRAS = {
    "comm-hook": "scalecurve_worker.extras.compression.registration:compress",
    "horovod": "scalecurve_worker.extras.horovod.tensorflow_strategy:horovod",
    "parameter-server": "scalecurve_worker.extras.parameter_server.strategy:parameter_server",
    "check-quantizable": "scalecurve_worker.extras.quantization.folding:check_quantizable",
    "quantize": "scalecurve_worker.extras.quantization.evaluation:quantize",
}


def extra(name: str) -> Any:
    """The function that does this part."""
    return load(EXTRAS[name])
