"""Building a model of the catalog with Keras."""

from collections.abc import Sequence
from typing import Any

from scalecurve_api.programs.model_catalog import ModelEntry
from scalecurve_api.registry import load
from scalecurve_worker.tensorflow.framework import keras
from scalecurve_worker.training.models import ModelError, find_model


def spec(name: str) -> ModelEntry:
    """Look a model up by name or alias."""
    return find_model(name, "tensorflow")


def build(name: str, *, classes: int | None = None, input_shape: Sequence[int] | None = None) -> Any:
    """A Keras model that maps (batch, height, width, channels) to logits (batch, classes).

    ``input_shape`` is (channels, height, width). Parameters are drawn from Keras's global seed.
    """
    model = spec(name)
    shape = tuple(model.shape if input_shape is None else input_shape)
    classes = model.classes if classes is None else classes
    if len(shape) != 3 or min(shape) < 1:
        raise ModelError(f"model {model.name}: input shape {list(shape)}: expected [channels, height, width]")
    if min(shape[1:]) < model.smallest:
        least = f"{model.smallest}x{model.smallest}"
        raise ModelError(f"model {model.name}: images of {shape[1]}x{shape[2]}: need at least {least}")
    if classes < 1:
        raise ModelError(f"model {model.name}: classes {classes}: expected a positive number")
    channels, height, width = shape
    inputs = keras.Input((height, width, channels), name="image")
    return keras.Model(inputs, load(model.tensorflow)(inputs, classes=classes), name=model.name)
