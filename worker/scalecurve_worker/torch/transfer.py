"""Transfer learning: load a checkpoint, replace the head, freeze the rest."""

import hashlib
import pickle
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from scalecurve_api.programs.model_catalog import ModelEntry
from scalecurve_api.programs.training import Trainable, Transfer
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.sdk.observation import tensor_bytes
from scalecurve_worker.torch import models
from scalecurve_worker.training.checkpoints import FIELD, missing, take_over
from scalecurve_worker.training.state_files import SAFETENSORS, StateError, read_state


def head_entries(model: ModelEntry, input_shape: tuple[int, ...], classes: int) -> frozenset[str]:
    """Name the head's parameters: those whose shape follows the class count (of a VGG the last layer alone)."""
    if model.kind == "tokens":
        raise models.ModelError(f"{model.name}: workload.transfer supports image models only")
    with torch.device("meta"):
        entries, with_another_class = (
            models.build(model.name, classes=count, input_shape=input_shape).state_dict()
            for count in (classes, classes + 1)
        )
    return frozenset(name for name, tensor in entries.items() if tensor.shape != with_another_class[name].shape)


def load_checkpoint(model: nn.Module, file: str, head: Collection[str]) -> str:
    """Copy a checkpoint's parameters and buffers into ``model``; what was done about the head, for the record.

    A relative ``file`` is looked for in the folder that the program was started in, as ``data.path`` is.
    """
    path = Path(file).expanduser()
    expected: dict[str, Tensor] = model.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    with torch.no_grad():
        return take_over(path, _read(path), shapes, head, lambda name, entry: expected[name].copy_(entry))


def freeze(model: nn.Module, head: Collection[str]) -> None:
    """Take every parameter but the head's out of training: no gradient is computed for it."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in head)
    train_mode(model)


def train_mode(model: nn.Module) -> nn.Module:
    """Set training mode, but for layers whose parameters are frozen.

    Batch norm there keeps its statistics as they are.
    """
    model.train()
    for layer in model.modules():
        if is_frozen(layer):
            layer.eval()
    return model


def is_frozen(layer: nn.Module) -> bool:
    """Tell whether a layer has parameters of its own and none of them is trained."""
    parameters = list(layer.parameters(recurse=False))
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def frozen_checksum(model: nn.Module) -> list[str]:
    """Compute the digest of names, shapes and bits of what is frozen, buffers included; none where nothing is."""
    digest = hashlib.blake2b(digest_size=16)
    frozen = sorted((prefix, layer) for prefix, layer in model.named_modules() if is_frozen(layer))
    for prefix, layer in frozen:
        tensors = (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False))
        for name, tensor in sorted(tensors, key=lambda each: each[0]):
            digest.update(f"{prefix}.{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
            digest.update(tensor_bytes(tensor.detach()))
    return [digest.hexdigest()] if frozen else []


def begin(
    model: nn.Module, transfer: Transfer, spec: ModelEntry, input_shape: tuple[int, ...], classes: int
) -> dict[str, object]:
    """Do what ``workload.transfer`` asks for to a freshly built model; what the record says of it."""
    file = None if transfer.train is Trainable.scratch else transfer.checkpoint
    if file is None and transfer.train is not Trainable.head:
        return {}
    head = head_entries(spec, input_shape, classes)
    noted: dict[str, object] = {}
    if file is not None:
        noted = {"checkpoint": file, "head": load_checkpoint(model, file, head)}
    if transfer.train is Trainable.head:
        freeze(model, head)
    trained = sum(each.numel() for each in model.parameters() if each.requires_grad)
    frozen = sum(each.numel() for each in model.parameters()) - trained
    return {**noted, "parametersTrained": trained, "parametersFrozen": frozen}


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == SAFETENSORS:
            return {name: torch.from_numpy(array.copy()) for name, array in read_state(path).items()}
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise WorkloadError(f"{FIELD}: {path}: cannot be read: {error.strerror}") from error
    except StateError as error:
        raise WorkloadError(f"{FIELD}: {path}: {error}") from error
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
        why = str(error).strip().partition("\n")[0][:120] or type(error).__name__
        raise WorkloadError(f"{FIELD}: {path}: torch cannot read a state dict from it: {why}") from error
    if not isinstance(state, Mapping) or not state or not all(isinstance(each, Tensor) for each in state.values()):
        raise WorkloadError(f"{FIELD}: {path}: not a state dict, which maps names to tensors")
    return {str(name): tensor for name, tensor in state.items()}
