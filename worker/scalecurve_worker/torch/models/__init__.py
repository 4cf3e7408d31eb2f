"""Model definitions: ``build`` one by name, and ``training_loss`` for what it gives."""

from scalecurve_worker.torch.models.catalog import build, spec
from scalecurve_worker.torch.models.layers import AuxiliaryLogits, cross_entropy, training_loss
from scalecurve_worker.training.models import ModelError

__all__ = ["AuxiliaryLogits", "ModelError", "build", "cross_entropy", "spec", "training_loss"]
