"""Checkpoints of trained parameters, written atomically."""

import os
from pathlib import Path

import torch
from torch import nn

from scalecurve_api.files import atomic_file
from scalecurve_worker.process.failure import WorkloadError

_FIELD = "measure.accuracy.checkpoints"


def open_folder(path: str) -> Path:
    """The folder for checkpoints, made where it is absent; a relative one is in the folder the program started in."""
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkloadError(f"{_FIELD}: {folder}: cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise WorkloadError(f"{_FIELD}: {folder}: cannot be written to")
    return folder


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
        raise WorkloadError(f"{_FIELD}: {path}: cannot be written: {error.strerror}") from error
    return path
