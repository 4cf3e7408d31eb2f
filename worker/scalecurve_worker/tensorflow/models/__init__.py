"""The models that the program has in Keras as in torch, layer for layer and under the same names."""

from scalecurve_worker.tensorflow.models.catalog import ModelError, ModelSpec, build, names, spec

__all__ = ["ModelError", "ModelSpec", "build", "names", "spec"]
