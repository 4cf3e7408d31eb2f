"""Every model by name: what it takes, how many parameters it has, and where each framework's builder is.

The one list of models. Builders are named as ``module:function`` and imported only where a model is built, so this
module needs no framework. Another package adds a model by an entry point in ``scalecurve.models`` that names a
``ModelEntry``.
"""

from dataclasses import dataclass
from typing import Any, Literal

from scalecurve_api.registry import Registry, RegistryError

ModelKind = Literal["image", "tokens", "vector"]
Framework = Literal["torch", "tensorflow"]


@dataclass(frozen=True)
class ModelEntry:
    """One model.

    ``shape`` and ``classes`` are those of the paper; ``parameters`` is the count they give, without auxiliary
    classifiers. ``shape`` is (channels, height, width) for an image, (length,) for tokens, anything for a vector.
    ``smallest`` is the least height and width of an image that the layers allow.

    ``torch`` is called with ``channels`` and ``classes`` for images, ``vocabulary`` and ``length`` for tokens, and
    ``input_shape`` and ``classes`` for vectors; ``tensorflow`` with a Keras input and ``classes``. ``network`` is the
    name of a shipped network that describes its layers, or a function that returns one.
    """

    name: str
    family: str
    shape: tuple[int, ...]
    classes: int
    parameters: int
    torch: str = ""
    tensorflow: str = ""
    network: str = ""
    kind: ModelKind = "image"
    smallest: int = 1
    smallest_with_auxiliary: int = 1
    auxiliary_weight: float = 0.0


_TORCH = "scalecurve_worker.torch.models"
_KERAS = "scalecurve_worker.features.tensorflow.models"
_IMAGENET = (3, 224, 224)


def _resnet(name: str, parameters: int) -> ModelEntry:
    builders = (f"{_TORCH}.resnet:{name}", f"{_KERAS}.residual:{name}", name)
    if name.endswith("_cifar"):
        return ModelEntry(name, "resnet_cifar", (3, 32, 32), 10, parameters, *builders)
    return ModelEntry(name, "resnet", _IMAGENET, 1000, parameters, *builders)


def _vgg(depth: int, parameters: int) -> ModelEntry:
    name = f"vgg{depth}"
    builders = (f"{_TORCH}.plain:{name}", f"{_KERAS}.plain:{name}", name)
    return ModelEntry(name, "vgg", _IMAGENET, 1000, parameters, *builders, smallest=32)


def _imagenet(name: str, parameters: int, module: str, *, side: int = 224, **options: Any) -> ModelEntry:
    """A model that torchvision has too; the networks of the papers differ."""
    builder, network = f"{_TORCH}.{module}:{name}", f"{name}_torchvision"
    return ModelEntry(name, name, (3, side, side), 1000, parameters, builder, network=network, **options)


def _transformer(
    name: str, family: str, parameters: int, *, length: int = 1024, vocabulary: int = 50_257
) -> ModelEntry:
    torch = f"{_TORCH}.transformer:{name}"
    return ModelEntry(name, family, (length,), vocabulary, parameters, torch, kind="tokens")


def _llama(name: str, parameters: int, vocabulary: int = 128_256) -> ModelEntry:
    return _transformer(name, "llama", parameters, length=2048, vocabulary=vocabulary)


# Parameter counts: torchvision's for ImageNet models, the papers' or the released weights' for the others.
_ENTRIES = (
    _resnet("resnet18", 11_689_512),
    _resnet("resnet34", 21_797_672),
    _resnet("resnet50", 25_557_032),
    _resnet("resnet101", 44_549_160),
    _resnet("resnet152", 60_192_808),
    _vgg(16, 138_357_544),
    _vgg(19, 143_667_240),
    _imagenet("alexnet", 61_100_840, "plain", smallest=63, tensorflow=f"{_KERAS}.plain:alexnet"),
    _imagenet("googlenet", 6_624_904, "googlenet", smallest=15, smallest_with_auxiliary=15, auxiliary_weight=0.3),
    # 0.4 is the weight of the authors' released training code; the paper gives none.
    _imagenet(
        "inception_v3",
        23_834_568,
        "inception",
        side=299,
        smallest=75,
        smallest_with_auxiliary=299,
        auxiliary_weight=0.4,
        tensorflow=f"{_KERAS}.inception:inception_v3",
    ),
    _resnet("resnet20_cifar", 269_722),
    _resnet("resnet32_cifar", 464_154),
    _resnet("resnet44_cifar", 658_586),
    _resnet("resnet56_cifar", 853_018),
    _resnet("resnet110_cifar", 1_727_962),
    ModelEntry("mlp", "mlp", (1, 28, 28), 10, 669_706, f"{_TORCH}.plain:mlp", f"{_KERAS}.plain:mlp", kind="vector"),
    _transformer("gpt2_small", "gpt2", 124_439_808),
    _transformer("gpt2_medium", "gpt2", 354_823_168),
    _transformer("gpt2_large", "gpt2", 774_030_080),
    _transformer("gpt2_xl", "gpt2", 1_557_611_200),
    # 160m has the shape of JackFram/llama-160m; the others are Llama 3.2 1B and 3B, and Llama 3 8B.
    _llama("llama_160m", 162_417_408, vocabulary=32_000),
    _llama("llama_1b", 1_235_814_400),
    _llama("llama_3b", 3_212_749_824),
    _llama("llama_8b", 8_030_261_248),
    # Mixtures of experts. OLMoE's norms of queries and keys are not counted: 65,536 parameters.
    _transformer("mixtral_8x7b", "mixture", 46_702_792_704, length=2048, vocabulary=32_000),
    _transformer("olmoe_1b_7b", "mixture", 6_919_096_320, length=2048, vocabulary=50_304),
    # Small enough for a CPU; the shapes are ours.
    _transformer("gpt2_tiny", "gpt2", 132_864, length=64, vocabulary=256),
    _transformer("llama_tiny", "llama", 115_008, length=64, vocabulary=256),
    _transformer("mixture_tiny", "mixture", 189_248, length=64, vocabulary=256),
)
_BY_NAME = {entry.name: entry for entry in _ENTRIES}
_ALIASES = {f"resnet{depth}": _BY_NAME[f"resnet{depth}_cifar"] for depth in (20, 32, 44, 56, 110)}

MODELS: Registry[ModelEntry] = Registry("scalecurve.models", "model", ModelEntry, {**_BY_NAME, **_ALIASES})


def models_of(framework: Framework) -> tuple[str, ...]:
    """Names that a framework's program may be given: built-in models, aliases, and those of installed packages."""
    names = (*_BY_NAME, *_ALIASES, *MODELS.names()[len(MODELS.built_in) :])
    return tuple(name for name in names if name not in MODELS.built_in or getattr(MODELS.get(name), framework))


def reads_tokens(name: str) -> bool | None:
    """Whether a model is a language model; None for one that is unknown, or whose package does not load."""
    try:
        return MODELS.get(name).kind == "tokens" if name in MODELS else None
    except RegistryError:
        return None


def reads_images(name: str) -> bool:
    """Whether a model of the catalog takes images, with channels, height and width."""
    try:
        return name in MODELS and len(MODELS.get(name).shape) == 3
    except RegistryError:
        return False


def smallest_image(name: str) -> int:
    """Least height and width of an image that a model's layers allow; 1 for one that is unknown or takes no images."""
    try:
        return MODELS.get(name).smallest if name in MODELS else 1
    except RegistryError:
        return 1
