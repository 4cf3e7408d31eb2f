"""Manifest of the feature deepspeed."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "deepspeed",
    "Train under DeepSpeed's ZeRO, stages 1 to 3.",
    {
        "scalecurve.torch_strategies": {
            "deepspeed-zero1": "scalecurve_api.features.deepspeed.fields:ZERO1",
            "deepspeed-zero2": "scalecurve_api.features.deepspeed.fields:ZERO2",
            "deepspeed-zero3": "scalecurve_api.features.deepspeed.fields:ZERO3",
        },
        "scalecurve_worker.torch_strategies": {
            "deepspeed-zero1": "scalecurve_worker.features.deepspeed.engine:ENGINE",
            "deepspeed-zero2": "scalecurve_worker.features.deepspeed.engine:ENGINE",
            "deepspeed-zero3": "scalecurve_worker.features.deepspeed.engine:ENGINE",
        },
    },
    order=40,
)
