"""Keras versions of the torch program's models, layer for layer and under the same names."""

import math
from collections.abc import Sequence
from typing import Any

from scalecurve_api.programs.model_catalog import ModelEntry
from scalecurve_api.registry import load
from scalecurve_worker.features.tensorflow.framework import keras
from scalecurve_worker.training.models import ModelError, find_model

__all__ = ["ModelError", "build", "spec", "step_flops"]


def spec(name: str) -> ModelEntry:
    """Look a model up by name or alias."""
    return find_model(name, "tensorflow")


def build(name: str, *, classes: int | None = None, input_shape: Sequence[int] | None = None) -> Any:
    """Build a Keras model that maps (batch, height, width, channels) to logits (batch, classes).

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


def step_flops(model: Any) -> int:
    """Count a training step's FLOPs for one item from the layers' shapes, by the conventions of the torch program.

    One multiply-add is two FLOPs. Convolutions and matrix products are counted, forward and backward: the backward pass
    takes as many as the forward one for the weights of a layer that is trained, and as many for its input where a layer
    before it is trained; so the first layer's input is never counted.
    """
    total, trained_before = 0, False
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D | keras.layers.Dense):
            places = layer.output.shape[1:3] if isinstance(layer, keras.layers.Conv2D) else ()
            forward = 2 * math.prod(layer.kernel.shape) * math.prod(places)
            total += forward * (1 + bool(layer.trainable) + trained_before)
        trained_before = trained_before or bool(layer.trainable_variables)
    return total
