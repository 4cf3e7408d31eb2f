"""A model's parameters: a digest of what every replica must agree on, and checkpoints, written atomically."""

import hashlib
from pathlib import Path

import torch
from torch import nn

from scalecurve_api.files import atomic_file
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.sdk.observation import tensor_bytes
from scalecurve_worker.torch.explain.wrappers import full_parameters
from scalecurve_worker.training.checkpoints import FOLDER_FIELD


def parameter_checksum(model: nn.Module) -> str:
    """Compute the digest of names, shapes, types and bits of all parameters, by name.

    Collective where ranks hold shares (FSDP).

    Buffers are excluded: DDP copies rank 0's before each forward pass, which then changes batch norm's running
    statistics by the rank's own batch, so they differ between healthy replicas.
    """
    digests = {}
    for name, tensor in full_parameters(model):
        about = f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode()
        digests[name] = hashlib.blake2b(about + tensor_bytes(tensor), digest_size=16).digest()
    return hashlib.blake2b(b"".join(digests[name] for name in sorted(digests)), digest_size=16).hexdigest()


def write_checkpoint(module: nn.Module, folder: Path, trial: str) -> Path:
    """Write the state dict to ``<folder>/<trial>.pt`` by one rename, in host memory and without a wrapper's prefix.

    ``torch.load(..., weights_only=True)`` reads it on any machine.
    """
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    path = folder / f"{trial}.pt"
    try:
        with atomic_file(path) as file:
            torch.save(state, file)
    except OSError as error:
        raise WorkloadError(f"{FOLDER_FIELD}: {path}: cannot be written: {error.strerror}") from error
    return path
