"""Kinds of layers: their fields and output shapes. Shapes are for one sample."""

from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from scalecurve_models.networks.window import Padding, adaptive_window, extent, reach

Shape = tuple[int, ...]  # (height, width, channels) of a map, (features,) of a vector


class NetworkError(ValueError):
    """An invalid network; the message is one line that names the layer."""


def _pair(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, list) else value


def _padding(value: Any) -> Any:
    if value in ("valid", "same"):
        return value
    pair = _pair(value)
    integers = isinstance(pair, tuple) and all(type(cells) is int for cells in pair)
    if not integers or len(pair) != 2 or min(pair) < 0:
        raise ValueError("expected valid, same, or cells at each side (0 or more, or a pair)")
    return "valid" if value == 0 else pair


Count = Annotated[int, Field(ge=1, le=10**9, strict=True)]
Pair = Annotated[tuple[Count, Count], BeforeValidator(_pair)]
Pad = Annotated[Padding, BeforeValidator(_padding)]
Dimensions = Annotated[tuple[Count, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]
Norm = Literal["batch", "center"]
"""``batch`` learns a scale and an offset per channel, ``center`` only an offset (as TF-slim's Inception)."""


class Layer(BaseModel):
    """Fields of every layer. ``device`` is its split under model parallelism, None if not split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    parents: tuple[str, ...] = ()
    device: int | None = None
    auxiliary: bool = False  # used only in training, such as a classifier halfway up

    @property
    def kind(self) -> str:
        return str(getattr(self, "type", ""))

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        """Output shape for the shapes of the parents, in order. Raises NetworkError if they do not fit."""
        return self.only(inputs)

    def only(self, inputs: tuple[Shape, ...]) -> Shape:
        if len(inputs) != 1:
            raise NetworkError(f"layer {self.name}: {self.kind} takes one input, got {len(inputs)}")
        return inputs[0]

    def map_of(self, inputs: tuple[Shape, ...]) -> tuple[int, int, int]:
        shape = self.only(inputs)
        if len(shape) != 3:
            raise NetworkError(f"layer {self.name}: {self.kind} takes height x width x channels, got {spell(shape)}")
        return shape[0], shape[1], shape[2]


class Input(Layer):
    """The input of the network."""

    type: Literal["input"] = "input"
    shape: Dimensions

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        if inputs:
            raise NetworkError(f"layer {self.name}: an input has no parents, got {len(inputs)}")
        return self.shape


class Conv(Layer):
    """A convolution, with the normalization and the activation that follow it, if any."""

    type: Literal["conv"] = "conv"
    filters: Count
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pad = "valid"
    dilation: Pair = (1, 1)
    groups: Count = 1
    bias: bool = True
    norm: Norm | None = None
    activation: str | None = None

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        height, width, channels = self.map_of(inputs)
        if channels % self.groups or self.filters % self.groups:
            sizes = f"{channels} channels and {self.filters} filters"
            raise NetworkError(f"layer {self.name}: groups {self.groups}: must divide {sizes}")
        kernel = tuple(reach(k, d) for k, d in zip(self.kernel, self.dilation, strict=True))
        return (*_windows(self, (height, width), kernel, self.stride), self.filters)


class Deconv(Layer):
    """A transposed convolution; ``size`` is its output height and width."""

    type: Literal["deconv"] = "deconv"
    filters: Count
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pad = "valid"
    size: Pair
    bias: bool = True
    norm: Norm | None = None
    activation: str | None = None

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, filters); the transposed convolution must map it back to the input."""
        height, width, _ = self.map_of(inputs)
        back = _windows(self, self.size, self.kernel, self.stride)
        if back != (height, width):
            raise NetworkError(
                f"layer {self.name}: size {spell(self.size)}: the convolution maps it to {spell(back)}, "
                f"but the input is {height}x{width}"
            )
        return (*self.size, self.filters)


class Dense(Layer):
    """A fully connected layer; ``inputs`` is the required number of input features, if set.

    ``as_convolution``: computed as a convolution over the full input, as in TF-slim. The counts are the same; Paleo's
    backward pass is not.
    """

    type: Literal["fc"] = "fc"
    features: Count
    inputs: Count | None = None
    bias: bool = True
    norm: Norm | None = None
    activation: str | None = None
    as_convolution: bool = False

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        shape = self.only(inputs)
        if self.inputs is not None and prod(shape) != self.inputs:
            raise NetworkError(
                f"layer {self.name}: takes {self.inputs:,} features, but its input {spell(shape)} has "
                f"{prod(shape):,}; another input size needs another network"
            )
        return (self.features,)


class Pool(Layer):
    """The maximum or mean of each window; ``grid`` sets the number of windows instead of their size."""

    type: Literal["maxpool", "avgpool"]
    kernel: Pair | None = None
    stride: Pair | None = None
    padding: Pad = "valid"
    ceil: bool = False
    grid: Pair | None = None

    def window(self, shape: Shape) -> tuple[tuple[int, int], tuple[int, int]]:
        if (self.kernel is None) == (self.grid is None):
            raise NetworkError(f"layer {self.name}: a pool needs either kernel or grid")
        if self.grid is not None:
            (kh, sh), (kw, sw) = (adaptive_window(size, n) for size, n in zip(shape[:2], self.grid, strict=True))
            return (kh, kw), (sh, sw)
        assert self.kernel is not None
        return self.kernel, self.stride or self.kernel

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        height, width, channels = self.map_of(inputs)
        kernel, stride = self.window((height, width))
        if self.grid is not None:
            return (*self.grid, channels)
        return (*_windows(self, (height, width), kernel, stride, self.ceil), channels)


class LocalResponseNorm(Layer):
    """Local response normalization over ``size`` channels."""

    type: Literal["lrn"] = "lrn"
    size: Count = 5


class Normalization(Layer):
    """A normalization that does not follow a convolution."""

    type: Literal["norm"] = "norm"
    norm: Norm = "batch"


class Activation(Layer):
    """An activation that does not follow a convolution."""

    type: Literal["activation"] = "activation"
    activation: str = "relu"


class Dropout(Layer):
    """Sets a share of the values to zero in training."""

    type: Literal["dropout"] = "dropout"
    rate: Annotated[float, Field(ge=0, le=1)] = 0.5


class Add(Layer):
    """The element-wise sum of its inputs."""

    type: Literal["add"] = "add"
    activation: str | None = None

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        if not inputs or any(shape != inputs[0] for shape in inputs):
            raise NetworkError(f"layer {self.name}: add takes equal shapes, got {_several(inputs)}")
        return inputs[0]


class Concat(Layer):
    """Its inputs concatenated along the channels."""

    type: Literal["concat"] = "concat"

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        if not inputs or any(shape[:-1] != inputs[0][:-1] for shape in inputs):
            raise NetworkError(f"layer {self.name}: concat takes equal heights and widths, got {_several(inputs)}")
        return (*inputs[0][:-1], sum(shape[-1] for shape in inputs))


class Flatten(Layer):
    """A map as a vector."""

    type: Literal["flatten"] = "flatten"

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        return (prod(self.only(inputs)),)


class Softmax(Layer):
    """Scores to probabilities; only the last axis stays."""

    type: Literal["softmax"] = "softmax"

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        return (self.only(inputs)[-1],)


class Shortcut(Layer):
    """Option A of He et al.: every ``stride``-th row and column, padded with zero channels up to ``filters``."""

    type: Literal["shortcut"] = "shortcut"
    filters: Count
    stride: Pair = (1, 1)

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        height, width, channels = self.map_of(inputs)
        if channels > self.filters:
            raise NetworkError(f"layer {self.name}: filters {self.filters}: fewer than the {channels} input channels")
        return (-(-height // self.stride[0]), -(-width // self.stride[1]), self.filters)


class Upsample(Layer):
    """Every value repeated ``factor`` times along each axis."""

    type: Literal["upsample"] = "upsample"
    factor: Pair

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        height, width, channels = self.map_of(inputs)
        return (height * self.factor[0], width * self.factor[1], channels)


class Reshape(Layer):
    """The same values in another shape."""

    type: Literal["reshape"] = "reshape"
    shape: Dimensions

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        if prod(self.only(inputs)) != prod(self.shape):
            raise NetworkError(f"layer {self.name}: {spell(inputs[0])} cannot be reshaped to {spell(self.shape)}")
        return self.shape


class Other(Layer):
    """A layer without counts; ``shape`` is its output shape, by default that of its input."""

    type: Literal["other"] = "other"
    shape: Dimensions | None = None
    what: str = ""

    def output(self, inputs: tuple[Shape, ...]) -> Shape:
        if self.shape is None and not inputs:
            raise NetworkError(f"layer {self.name}: needs parents or a shape")
        return self.shape or inputs[0]


AnyLayer = (
    Input | Conv | Deconv | Dense | Pool | LocalResponseNorm | Normalization | Activation | Dropout | Add | Concat
    | Flatten | Softmax | Shortcut | Upsample | Reshape | Other
)  # fmt: skip


def spell(shape: Shape) -> str:
    """224x224x3, or 4096 for a vector."""
    return "x".join(str(size) for size in shape)


def _several(shapes: tuple[Shape, ...]) -> str:
    return ", ".join(spell(shape) for shape in shapes) or "none"


def _windows(
    layer: Conv | Deconv | Pool, size: Shape, kernel: Shape, stride: Shape, ceil: bool = False
) -> tuple[int, int]:
    height, width = (extent(layer.padding, axis, size[axis], kernel[axis], stride[axis], ceil) for axis in (0, 1))
    if height < 1 or width < 1:
        padded = "" if layer.padding == "valid" else f", padding {layer.padding}"
        raise NetworkError(
            f"layer {layer.name}: kernel {spell(kernel)}{padded} does not fit into {size[0]}x{size[1]}; "
            "use a larger input"
        )
    return height, width
