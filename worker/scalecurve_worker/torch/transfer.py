"""Transfer learning: load a checkpoint, replace the head, freeze the rest."""

import hashlib
import pickle
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from scalecurve_api.programs.model_catalog import ModelEntry
from scalecurve_api.programs.torch import Trainable, Transfer
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models
from scalecurve_worker.torch.checksum import tensor_bytes

_BLOCK = re.compile(r"layer([1-4])\.(\d+)\.(?:(conv|bn)(\d)|downsample\.([01]))\.(.+)")
_TOP = {"conv1.": "stem.0.0.", "bn1.": "stem.0.1.", "fc.": "head.2."}


def of_torchvision(entries: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with torchvision's names for ResNet-18 to -152 renamed; any other as it is.

    Stages are numbered through here and by group there: ``layer2.0.conv3.weight`` of ResNet-50 is
    ``stages.3.body.2.0.weight``.
    """
    if "conv1.weight" not in entries or "layer1.0.conv1.weight" not in entries:
        return dict(entries)
    blocks = sorted({(int(m[1]), int(m[2])) for name in entries if (m := _BLOCK.fullmatch(name))})
    place = {block: index for index, block in enumerate(blocks)}
    return {_renamed(name, place): tensor for name, tensor in entries.items()}


def _renamed(name: str, place: Mapping[tuple[int, int], int]) -> str:
    for theirs, ours in _TOP.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    match = _BLOCK.fullmatch(name)
    if match is None:
        return name
    group, index, kind, number, shortcut, rest = match.groups()
    stage = f"stages.{place[int(group), int(index)]}"
    if shortcut is not None:
        return f"{stage}.shortcut.{shortcut}.{rest}"
    return f"{stage}.body.{int(number) - 1}.{0 if kind == 'conv' else 1}.{rest}"


_FIELD = "workload.transfer.checkpoint"
_FEW = 3
Entries = dict[str, Tensor]


def head_entries(model: ModelEntry, input_shape: tuple[int, ...], classes: int) -> frozenset[str]:
    """Names of the head's parameters: those whose shape follows the class count (of a VGG the last layer alone)."""
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

    A relative ``file`` is looked for in the folder that the program was started in, as ``data.path`` is. The file holds
    a state dict with this project's names or torchvision's (ResNets). The head stays freshly drawn where the
    checkpoint's is for another number of classes, and is taken over where it fits.
    """
    path = Path(file).expanduser()
    stored = of_torchvision(_read(path))
    expected: Entries = model.state_dict()
    optional = {name for name in expected if name.endswith("num_batches_tracked")}
    apart = [f"{name} is missing" for name in expected if name not in stored and name not in optional]
    apart += [f"{name} is of no layer" for name in stored if name not in expected]
    fits = {name: tensor for name, tensor in stored.items() if name in expected}
    other = [name for name in fits if fits[name].shape != expected[name].shape]
    apart += [f"{n} is {list(fits[n].shape)} and not {list(expected[n].shape)}" for n in other if n not in head]
    if apart:
        more = f" and {len(apart) - _FEW} more" if len(apart) > _FEW else ""
        raise WorkloadError(f"{_FIELD}: {path}: different architecture: {'; '.join(apart[:_FEW])}{more}")
    with torch.no_grad():
        for name, tensor in fits.items():
            if name not in other:
                expected[name].copy_(tensor)
    return "new, for another number of classes" if other else "the checkpoint's"


def freeze(model: nn.Module, head: Collection[str]) -> None:
    """Take every parameter but the head's out of training: no gradient is computed for it."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in head)
    train_mode(model)


def train_mode(model: nn.Module) -> nn.Module:
    """Training mode, but for layers whose parameters are frozen: batch norm there keeps its statistics as they are."""
    model.train()
    for layer in model.modules():
        if is_frozen(layer):
            layer.eval()
    return model


def is_frozen(layer: nn.Module) -> bool:
    """Whether a layer has parameters of its own and none of them is trained."""
    parameters = list(layer.parameters(recurse=False))
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def frozen_checksum(model: nn.Module) -> str | None:
    """Digest of names, shapes and bits of what is frozen, buffers included; None where nothing is."""
    digest, frozen = hashlib.blake2b(digest_size=16), False
    for prefix, layer in sorted(model.named_modules()):
        if not is_frozen(layer):
            continue
        frozen = True
        tensors = (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False))
        for name, tensor in sorted(tensors, key=lambda each: each[0]):
            digest.update(f"{prefix}.{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
            digest.update(tensor_bytes(tensor.detach()))
    return digest.hexdigest() if frozen else None


def begin(
    model: nn.Module, transfer: Transfer, spec: ModelEntry, input_shape: tuple[int, ...], classes: int
) -> dict[str, object]:
    """Do what ``workload.transfer`` asks for to a freshly built model; what the record says of it."""
    loads = transfer.checkpoint is not None and transfer.train is not Trainable.scratch
    if not loads and transfer.train is not Trainable.head:
        return {}
    head = head_entries(spec, input_shape, classes)
    noted: dict[str, object] = {}
    if loads:
        assert transfer.checkpoint is not None
        noted = {"checkpoint": transfer.checkpoint, "head": load_checkpoint(model, transfer.checkpoint, head)}
    if transfer.train is Trainable.head:
        freeze(model, head)
    trained = sum(each.numel() for each in model.parameters() if each.requires_grad)
    frozen = sum(each.numel() for each in model.parameters()) - trained
    return {**noted, "parametersTrained": trained, "parametersFrozen": frozen}


def note_frozen(checksums: list[str], model: nn.Module) -> None:
    """Add the checksum of what is frozen, where anything is. Outside of any window."""
    checksum = frozen_checksum(model)
    if checksum is not None:
        checksums.append(checksum)


def _read(path: Path) -> Entries:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise WorkloadError(f"{_FIELD}: {path}: no such file (looked for from {Path.cwd()})") from None
    except OSError as error:
        raise WorkloadError(f"{_FIELD}: {path}: cannot be read: {error.strerror}") from error
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
        why = str(error).strip().partition("\n")[0][:120] or type(error).__name__
        raise WorkloadError(f"{_FIELD}: {path}: torch cannot read a state dict from it: {why}") from error
    if not isinstance(state, Mapping) or not state or not all(isinstance(each, Tensor) for each in state.values()):
        raise WorkloadError(f"{_FIELD}: {path}: not a state dict, which maps names to tensors")
    return {str(name): tensor for name, tensor in state.items()}
