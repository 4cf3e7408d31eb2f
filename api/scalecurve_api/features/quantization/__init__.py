"""Manifest of the feature quantization."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "quantization",
    "Quantize a trained model after training, bit by bit.",
    {
        "scalecurve.facts": {"quantization": "scalecurve_api.features.quantization.facts:QUANTIZATION"},
        "scalecurve_worker.extras": {
            "check-quantizable": "scalecurve_worker.features.quantization.folding:check_quantizable",
            "quantize": "scalecurve_worker.features.quantization.evaluation:quantize",
        },
        "scalecurve.plots": {"quantization": "scalecurve.features.quantization.plots"},
    },
)
