"""Transfer learning with Keras: load a checkpoint with torch's names and layouts, replace the head, freeze the rest."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.training import Trainable, Transfer
from scalecurve_worker.features.tensorflow.framework import keras, tf
from scalecurve_worker.features.tensorflow.models.layers import BatchNormLayer
from scalecurve_worker.features.tensorflow.training import components
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.training.checkpoints import FIELD, FOLDER_FIELD, missing, open_folder, take_over
from scalecurve_worker.training.models import ModelError
from scalecurve_worker.training.state_files import State, StateError, read_state, write_safetensors


@dataclass(frozen=True)
class NamedVariable:
    """One variable under the name, and in the layout, that it has in torch.

    ``image`` is (height, width, channels) of a dense layer's input that was flattened: channels come first in torch.
    """

    variable: Any
    image: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        shape = tuple(self.variable.shape)
        return (shape[3], shape[2], *shape[:2]) if len(shape) == 4 else shape[::-1]

    def to_torch(self, value: NDArray[Any]) -> NDArray[Any]:
        """Convert a value of the variable to torch's layout."""
        if value.ndim == 4:
            return value.transpose(3, 2, 0, 1)
        if self.image:
            value = value.reshape(*self.image, -1).transpose(2, 0, 1, 3).reshape(value.shape)
        return value.T

    def convert_from_torch(self, value: NDArray[Any]) -> NDArray[Any]:
        """Convert a value from torch's layout to the variable's."""
        if value.ndim == 4:
            return value.transpose(2, 3, 1, 0)
        value = value.T
        if self.image:
            height, width, channels = self.image
            value = value.reshape(channels, height, width, -1).transpose(1, 2, 0, 3).reshape(value.shape)
        return value


def entries_of(model: Any) -> dict[str, NamedVariable]:
    """Return every parameter and running statistic by the name that it has in torch."""
    entries: dict[str, NamedVariable] = {}
    image: tuple[int, ...] = ()
    for layer in model.layers:
        if isinstance(layer, keras.layers.Flatten):
            image = tuple(layer.input.shape[1:])
        elif isinstance(layer, keras.layers.Conv2D | keras.layers.Dense):
            dense = isinstance(layer, keras.layers.Dense)
            entries[f"{layer.name}.weight"] = NamedVariable(layer.kernel, image if dense else ())
            image = () if dense else image
            if layer.use_bias:
                entries[f"{layer.name}.bias"] = NamedVariable(layer.bias)
        elif isinstance(layer, BatchNormLayer):
            names = {"weight": layer.gamma, "bias": layer.beta}
            names |= {"running_mean": layer.moving_mean, "running_var": layer.moving_variance}
            entries |= {f"{layer.name}.{name}": NamedVariable(variable) for name, variable in names.items()}
        elif layer.weights:
            raise ModelError(f"{model.name}: workload.transfer does not know layers of {type(layer).__name__}")
    return entries


def begin(model: Any, transfer: Transfer) -> dict[str, object]:
    """Do what ``workload.transfer`` asks for to a freshly built model; what the record says of it."""
    file = None if transfer.train is Trainable.scratch else transfer.checkpoint
    if file is None and transfer.train is not Trainable.head:
        return {}
    head = model.layers[-1]
    noted: dict[str, object] = {}
    if file is not None:
        noted = {"checkpoint": file, "head": load_checkpoint(model, file)}
    parameters = sum(math.prod(each.shape) for each in model.trainable_variables)
    if transfer.train is Trainable.head:
        for layer in model.layers:
            layer.trainable = layer is head
    trained = sum(math.prod(each.shape) for each in model.trainable_variables)
    return {**noted, "parametersTrained": trained, "parametersFrozen": parameters - trained}


def load_checkpoint(model: Any, file: str) -> str:
    """Assign a checkpoint's parameters and statistics, on every replica of this scope; what was done about the head."""
    path, strategy = Path(file).expanduser(), tf.distribute.get_strategy()
    entries, head = entries_of(model), model.layers[-1].name
    stored = _read(path)

    def put(name: str, value: NDArray[Any]) -> None:
        entry = entries[name]
        for variable in components(strategy, entry.variable):
            variable.assign(tf.cast(np.ascontiguousarray(entry.convert_from_torch(value)), variable.dtype))

    shapes = {name: entry.shape for name, entry in entries.items()}
    return take_over(path, stored, shapes, {f"{head}.weight", f"{head}.bias"}, put)


def write_checkpoint(strategy: Any, model: Any, folder: str, trial: str) -> Path:
    """Write ``<folder>/<trial>.safetensors``, with torch's names: every program's ``transfer.checkpoint`` reads it.

    Of several replicas it has the first one's statistics.
    """
    path = open_folder(folder) / f"{trial}.safetensors"
    state = {
        name: entry.to_torch(components(strategy, entry.variable)[0].numpy())
        for name, entry in entries_of(model).items()
    }
    try:
        write_safetensors(path, state)
    except OSError as error:
        raise WorkloadError(f"{FOLDER_FIELD}: {path}: cannot be written: {error.strerror}") from error
    return path


def frozen_checksum(strategy: Any, model: Any) -> list[str]:
    """Compute the digest of names, shapes and bits of what is frozen, on all replicas here; none where nothing is."""
    frozen = [each for layer in model.layers if not layer.trainable for each in layer.weights]
    digest = hashlib.blake2b(digest_size=16)
    for variable in sorted(frozen, key=lambda each: str(each.path)):
        for replica in components(strategy, variable):
            value = np.ascontiguousarray(replica.numpy())
            digest.update(f"{variable.path}{value.shape}{value.dtype}".encode())
            digest.update(value.tobytes())
    return [digest.hexdigest()] if frozen else []


def _read(path: Path) -> State:
    try:
        return read_state(path)
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise WorkloadError(f"{FIELD}: {path}: cannot be read: {error.strerror}") from error
    except StateError as error:
        raise WorkloadError(f"{FIELD}: {path}: cannot be read as a state dict: {error}") from error
