"""Every model by name: what it takes and how many parameters it has, as in the torch program, and how it is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from scalecurve_worker.tensorflow.framework import keras
from scalecurve_worker.tensorflow.models.plain import alexnet, mlp, vgg
from scalecurve_worker.tensorflow.models.residual import cifar_resnet, resnet
from scalecurve_worker.training.models import ModelError, find_model


@dataclass(frozen=True)
class KerasModelSpec:
    """One model; ``shape`` is (channels, height, width), the order of experiments, ``smallest`` the least side."""

    name: str
    shape: tuple[int, int, int]
    classes: int
    parameters: int
    construct: Callable[..., Any]
    smallest: int = 1


_IMAGENET, _CIFAR = (3, 224, 224), (3, 32, 32)
_SPECS = (
    *(
        KerasModelSpec(f"resnet{depth}", _IMAGENET, 1000, parameters, partial(resnet, depth=depth))
        for depth, parameters in (
            (18, 11_689_512),
            (34, 21_797_672),
            (50, 25_557_032),
            (101, 44_549_160),
            (152, 60_192_808),
        )
    ),
    KerasModelSpec("vgg16", _IMAGENET, 1000, 138_357_544, partial(vgg, depth=16), smallest=32),
    KerasModelSpec("vgg19", _IMAGENET, 1000, 143_667_240, partial(vgg, depth=19), smallest=32),
    KerasModelSpec("alexnet", _IMAGENET, 1000, 61_100_840, alexnet, smallest=63),
    *(
        KerasModelSpec(f"resnet{depth}_cifar", _CIFAR, 10, parameters, partial(cifar_resnet, depth=depth))
        for depth, parameters in ((20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018), (110, 1_727_962))
    ),
    KerasModelSpec("mlp", (1, 28, 28), 10, 669_706, mlp),
)
_CATALOG = {each.name: each for each in _SPECS}


def names() -> tuple[str, ...]:
    """Every model, in the order of the catalog."""
    return tuple(_CATALOG)


def spec(name: str) -> KerasModelSpec:
    """Look a model up by name or alias."""
    return find_model(name, _CATALOG, "tensorflow")


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
    return keras.Model(inputs, model.construct(inputs, classes=classes), name=model.name)
