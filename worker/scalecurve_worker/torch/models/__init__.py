"""Model definitions: ``build`` one by name, and ``training_loss`` for what it gives."""

from scalecurve_worker.torch.models.catalog import Kind, ModelError, ModelSpec, build, names, spec
from scalecurve_worker.torch.models.loss import AuxiliaryLogits, cross_entropy, training_loss

__all__ = [
    "AuxiliaryLogits",
    "Kind",
    "ModelError",
    "ModelSpec",
    "build",
    "cross_entropy",
    "names",
    "spec",
    "training_loss",
]
