"""Every model by name: what it takes, how many parameters it has, and how it is built."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import nn

from scalecurve_worker.torch.models.googlenet import GoogLeNet
from scalecurve_worker.torch.models.inception import InceptionV3
from scalecurve_worker.torch.models.plain import MLP, VGG, AlexNet
from scalecurve_worker.torch.models.resnet import ResNet
from scalecurve_worker.torch.models.resnet_cifar import CifarResNet
from scalecurve_worker.torch.models.transformer import GPT2, GPT2Size, Llama, LlamaSize
from scalecurve_worker.training.models import ModelError, find_model

Kind = Literal["image", "tokens", "vector"]
Construct = Callable[..., nn.Module]


@dataclass(frozen=True)
class ModelSpec:
    """One model of the catalog.

    ``shape`` and ``classes`` are those of the paper; ``parameters`` is the count they give, without auxiliary
    classifiers. ``shape`` is (channels, height, width) for an image, (length,) for tokens, anything for a vector.
    ``smallest`` is the least height and width of an image that the layers allow.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    classes: int
    parameters: int
    construct: Construct
    smallest: int = 1
    smallest_with_auxiliary: int = 1
    auxiliary_weight: float = 0.0

    @property
    def options(self) -> tuple[str, ...]:
        fixed = {"channels", "input_shape", "classes", "vocabulary", "length"}
        parameters = inspect.signature(self.construct).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in fixed)


def _gpt2(size: GPT2Size, *, vocabulary: int, length: int, context: int = 1024, dropout: float = 0.0) -> GPT2:
    if length > context:
        raise ModelError(f"sequence length {length}: this model has {context} positions; set option context")
    return GPT2(size, vocabulary=vocabulary, context=context, dropout=dropout)


def _llama(size: LlamaSize, *, vocabulary: int, length: int) -> Llama:
    return Llama(size, vocabulary=vocabulary)


def _imagenet(
    name: str,
    parameters: int,
    construct: Construct,
    *,
    side: int = 224,
    smallest: int = 1,
    smallest_with_auxiliary: int = 1,
    auxiliary_weight: float = 0.0,
) -> ModelSpec:
    return ModelSpec(
        name, "image", (3, side, side), 1000, parameters, construct,
        smallest, smallest_with_auxiliary, auxiliary_weight,
    )  # fmt: skip


def _cifar(depth: int, parameters: int) -> ModelSpec:
    return ModelSpec(f"resnet{depth}_cifar", "image", (3, 32, 32), 10, parameters, partial(CifarResNet, depth))


def _gpt2_spec(name: str, parameters: int, size: GPT2Size) -> ModelSpec:
    return ModelSpec(f"gpt2_{name}", "tokens", (1024,), 50_257, parameters, partial(_gpt2, size))


def _llama_spec(name: str, parameters: int, size: LlamaSize, *, classes: int = 128_256) -> ModelSpec:
    return ModelSpec(f"llama_{name}", "tokens", (2048,), classes, parameters, partial(_llama, size))


# Parameter counts: torchvision's for ImageNet models, the papers' or the released weights' for the others.
_SPECS = (
    _imagenet("resnet18", 11_689_512, partial(ResNet, 18)),
    _imagenet("resnet34", 21_797_672, partial(ResNet, 34)),
    _imagenet("resnet50", 25_557_032, partial(ResNet, 50)),
    _imagenet("resnet101", 44_549_160, partial(ResNet, 101)),
    _imagenet("resnet152", 60_192_808, partial(ResNet, 152)),
    _imagenet("vgg16", 138_357_544, partial(VGG, 16), smallest=32),
    _imagenet("vgg19", 143_667_240, partial(VGG, 19), smallest=32),
    _imagenet("alexnet", 61_100_840, AlexNet, smallest=63),
    _imagenet("googlenet", 6_624_904, GoogLeNet, smallest=15, smallest_with_auxiliary=15, auxiliary_weight=0.3),
    # 0.4 is the weight of the authors' released training code; the paper gives none.
    _imagenet(
        "inception_v3",
        23_834_568,
        InceptionV3,
        side=299,
        smallest=75,
        smallest_with_auxiliary=299,
        auxiliary_weight=0.4,
    ),
    _cifar(20, 269_722),
    _cifar(32, 464_154),
    _cifar(44, 658_586),
    _cifar(56, 853_018),
    _cifar(110, 1_727_962),
    ModelSpec("mlp", "vector", (1, 28, 28), 10, 669_706, MLP),
    _gpt2_spec("small", 124_439_808, GPT2Size(12, 768, 12)),
    _gpt2_spec("medium", 354_823_168, GPT2Size(24, 1024, 16)),
    _gpt2_spec("large", 774_030_080, GPT2Size(36, 1280, 20)),
    _gpt2_spec("xl", 1_557_611_200, GPT2Size(48, 1600, 25)),
    # 160m has the shape of JackFram/llama-160m; the others are Llama 3.2 1B and 3B, and Llama 3 8B.
    _llama_spec("160m", 162_417_408, LlamaSize(12, 768, 12, 12, 3072, tied=False, theta=10_000.0), classes=32_000),
    _llama_spec("1b", 1_235_814_400, LlamaSize(16, 2048, 32, 8, 8192, tied=True)),
    _llama_spec("3b", 3_212_749_824, LlamaSize(28, 3072, 24, 8, 8192, tied=True)),
    _llama_spec("8b", 8_030_261_248, LlamaSize(32, 4096, 32, 8, 14_336, tied=False)),
    # Small enough for a CPU; the shapes are ours.
    ModelSpec("gpt2_tiny", "tokens", (64,), 256, 132_864, partial(_gpt2, GPT2Size(2, 64, 4), context=256)),
    ModelSpec("llama_tiny", "tokens", (64,), 256, 115_008, partial(_llama, LlamaSize(2, 64, 4, 2, 192, tied=True))),
)
_CATALOG = {spec.name: spec for spec in _SPECS}


def names() -> tuple[str, ...]:
    """Every model, in the order of the catalog."""
    return tuple(_CATALOG)


def spec(name: str) -> ModelSpec:
    """Look a model up by name or alias."""
    return find_model(name, _CATALOG, "torch")


def build(
    name: str, *, classes: int | None = None, input_shape: Sequence[int] | None = None, **options: object
) -> nn.Module:
    """Build a model with freshly drawn parameters, on torch's current default device.

    ``classes`` (the vocabulary of a transformer) and ``input_shape`` (one sample, without the batch) are the
    paper's when left out. The model maps a batch to logits, see :func:`training_loss` for the loss.

    Options are ``zero_init_residual`` (ResNet), ``batch_norm`` and ``dropout`` (VGG), ``dropout`` (AlexNet, GPT-2),
    ``auxiliary`` and ``dropout`` (GoogLeNet, Inception-v3), ``hidden`` (MLP), ``context`` (GPT-2).

    Raises:
        ModelError: unknown model or option, or a shape or class count that it does not take.
    """
    model = spec(name)
    shape = tuple(model.shape if input_shape is None else input_shape)
    classes = model.classes if classes is None else classes
    _check(model, shape, classes, options)
    match model.kind:
        case "image":
            return model.construct(channels=shape[0], classes=classes, **options)
        case "tokens":
            return model.construct(vocabulary=classes, length=shape[0], **options)
        case "vector":
            return model.construct(input_shape=shape, classes=classes, **options)


def _check(model: ModelSpec, shape: tuple[int, ...], classes: int, options: dict[str, object]) -> None:
    unknown = [option for option in options if option not in model.options]
    if unknown:
        allowed = ", ".join(model.options) or "none"
        raise ModelError(f"model {model.name}: unknown option {unknown[0]!r}; allowed: {allowed}")
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
