"""Keras versions of the torch program's models, layer for layer and under the same names."""

from scalecurve_worker.tensorflow.models.catalog import build, spec, step_flops
from scalecurve_worker.training.models import ModelError

__all__ = ["ModelError", "build", "spec", "step_flops"]
