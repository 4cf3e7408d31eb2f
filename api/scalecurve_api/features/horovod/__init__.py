"""Manifest of the feature horovod."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "horovod",
    "Train PyTorch and Keras models over Horovod.",
    {
        "scalecurve.programs": {"horovod": "scalecurve_api.features.horovod.fields:HorovodWorkload"},
        "scalecurve.tensorflow_strategies": {"horovod": "scalecurve_api.features.horovod.strategy:HOROVOD"},
        "scalecurve_worker.tensorflow_strategies": {
            "horovod": "scalecurve_worker.features.horovod.tensorflow_strategy:HOROVOD",
        },
        "scalecurve_worker.collective_libraries": {
            "horovod": "scalecurve_worker.features.horovod.collective_calls:watch_horovod"
        },
    },
    order=20,
)
