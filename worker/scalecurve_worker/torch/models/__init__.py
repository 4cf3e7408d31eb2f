"""Models of the catalog with torch: ``build`` one by name, and ``training_loss`` for what it gives."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from scalecurve_api.programs.model_catalog import ModelEntry
from scalecurve_api.registry import load
from scalecurve_worker.torch.models.layers import AuxiliaryLogits, cross_entropy, training_loss
from scalecurve_worker.training.models import ModelError, find_model

__all__ = ["AuxiliaryLogits", "ModelError", "build", "cross_entropy", "spec", "training_loss"]


# Arguments of every builder; the others are options of the model.
_SIZES = {"channels", "input_shape", "classes", "vocabulary", "length"}
spec = partial(find_model, framework="torch")


def build(
    name: str, *, classes: int | None = None, input_shape: Sequence[int] | None = None, **options: object
) -> nn.Module:
    """Build a model with freshly drawn parameters, on torch's current default device.

    ``classes`` (the vocabulary of a transformer) and ``input_shape`` (one sample, without the batch) are the
    paper's by default. The model maps a batch to logits, see :func:`training_loss` for the loss.

    Options are ``zero_init_residual`` (ResNet), ``batch_norm`` and ``dropout`` (VGG), ``dropout`` (AlexNet, GPT-2),
    ``auxiliary`` and ``dropout`` (GoogLeNet, Inception-v3), ``hidden`` (MLP), ``context`` (GPT-2).

    Raises:
        ModelError: unknown model or option, or a shape or class count that it does not take.
    """
    model = spec(name)
    shape = tuple(model.shape if input_shape is None else input_shape)
    classes = model.classes if classes is None else classes
    _check(model, shape, classes, options)
    builder: Callable[..., nn.Module] = load(model.torch)
    _check_options(model, builder, options)
    match model.kind:
        case "image":
            return builder(channels=shape[0], classes=classes, **options)
        case "tokens":
            return builder(vocabulary=classes, length=shape[0], **options)
        case "vector":
            return builder(input_shape=shape, classes=classes, **options)


def _check_options(model: ModelEntry, builder: Callable[..., nn.Module], options: dict[str, object]) -> None:
    parameters = inspect.signature(builder).parameters.values()
    allowed_options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in _SIZES]
    if unknown := [option for option in options if option not in allowed_options]:
        allowed = ", ".join(allowed_options) or "none"
        raise ModelError(f"model {model.name}: unknown option {unknown[0]!r}; expected {allowed}")


def _check(model: ModelEntry, shape: tuple[int, ...], classes: int, options: dict[str, object]) -> None:
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 1:
        raise ModelError(f"model {model.name}: classes {classes!r}: expected a positive integer")
    if any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in shape) or not shape:
        raise ModelError(f"model {model.name}: input shape {list(shape)}: expected positive integers")
    if model.kind == "tokens" and len(shape) != 1:
        raise ModelError(f"model {model.name}: input shape {list(shape)}: expected [length]")
    if model.kind == "image":
        if len(shape) != 3:
            raise ModelError(f"model {model.name}: input shape {list(shape)}: expected [channels, height, width]")
        smallest = model.smallest_with_auxiliary if options.get("auxiliary") else model.smallest
        if min(shape[1:]) < smallest:
            raise ModelError(
                f"model {model.name}: images of {shape[1]}x{shape[2]}: need at least {smallest}x{smallest}"
            )
