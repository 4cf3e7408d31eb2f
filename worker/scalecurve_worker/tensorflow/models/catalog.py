"""Every model by name: what it takes and how many parameters it has, as in the torch program, and how it is built."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from scalecurve_worker.tensorflow.framework import keras
from scalecurve_worker.tensorflow.models.plain import alexnet, mlp, vgg
from scalecurve_worker.tensorflow.models.residual import cifar_resnet, resnet


class ModelError(ValueError):
    """A model that this program does not have, or a shape that it does not take."""


@dataclass(frozen=True)
class ModelSpec:
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
        ModelSpec(f"resnet{depth}", _IMAGENET, 1000, parameters, partial(resnet, depth=depth))
        for depth, parameters in (
            (18, 11_689_512),
            (34, 21_797_672),
            (50, 25_557_032),
            (101, 44_549_160),
            (152, 60_192_808),
        )
    ),
    ModelSpec("vgg16", _IMAGENET, 1000, 138_357_544, partial(vgg, depth=16), smallest=32),
    ModelSpec("vgg19", _IMAGENET, 1000, 143_667_240, partial(vgg, depth=19), smallest=32),
    ModelSpec("alexnet", _IMAGENET, 1000, 61_100_840, alexnet, smallest=63),
    *(
        ModelSpec(f"resnet{depth}_cifar", _CIFAR, 10, parameters, partial(cifar_resnet, depth=depth))
        for depth, parameters in ((20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018), (110, 1_727_962))
    ),
    ModelSpec("mlp", (1, 28, 28), 10, 669_706, mlp),
)
_CATALOG = {each.name: each for each in _SPECS}
_ALIASES = {f"resnet{depth}": f"resnet{depth}_cifar" for depth in (20, 32, 44, 56, 110)}


def names() -> tuple[str, ...]:
    """Every model, in the order of the catalog."""
    return tuple(_CATALOG)


def spec(name: str) -> ModelSpec:
    """Look a model up; ``resnet20`` is taken for ``resnet20_cifar``, and so the other CIFAR depths.

    Raises:
        ModelError: this program has no such model.
    """
    found = _CATALOG.get(_ALIASES.get(name, name))
    if found is None:
        near = difflib.get_close_matches(name, [*_CATALOG, *_ALIASES], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ModelError(f"program tensorflow has no model {name!r}{hint}; it has {', '.join(names())}")
    return found


def build(name: str, *, classes: int | None = None, input_shape: Sequence[int] | None = None) -> Any:
    """A Keras model that maps (batch, height, width, channels) to logits (batch, classes).

    ``input_shape`` is (channels, height, width). Parameters are drawn from Keras's global seed.

    Raises:
        ModelError: unknown model, or a shape or class count that it does not take.
    """
    model = spec(name)
    shape = tuple(model.shape if input_shape is None else input_shape)
    classes = model.classes if classes is None else classes
    if len(shape) != 3 or min(shape) < 1:
        raise ModelError(f"model {model.name}: input shape {list(shape)}: [channels, height, width] is wanted")
    if min(shape[1:]) < model.smallest:
        least = f"{model.smallest}x{model.smallest}"
        raise ModelError(f"model {model.name}: images of {shape[1]}x{shape[2]}: at least {least} is wanted")
    if classes < 1:
        raise ModelError(f"model {model.name}: classes {classes}: a positive number is wanted")
    channels, height, width = shape
    inputs = keras.Input((height, width, channels), name="image")
    return keras.Model(inputs, model.construct(inputs, classes=classes), name=model.name)
