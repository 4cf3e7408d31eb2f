"""Manifest of the feature tensorflow."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "tensorflow",
    "Train Keras models by TensorFlow.",
    {
        "scalecurve.programs": {"tensorflow": "scalecurve_api.features.tensorflow.fields:TensorFlowWorkload"},
    },
    order=10,
)
