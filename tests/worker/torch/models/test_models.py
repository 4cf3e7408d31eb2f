from __future__ import annotations

from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from scalecurve_api.programs.model_catalog import models_of
from scalecurve_worker.torch.models import (
    AuxiliaryLogits,
    ModelError,
    build,
    cross_entropy,
    spec,
    training_loss,
)
from scalecurve_worker.torch.models.resnet import Residual
from scalecurve_worker.torch.models.transformer import rotary_tables, rotate
from tests.examples import examples

NAMES = tuple(dict.fromkeys(spec(name).name for name in models_of("torch")))
IMAGE_MODELS = tuple(name for name in NAMES if spec(name).kind == "image")


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def on_meta(name: str, **arguments: object) -> nn.Module:
    with torch.device("meta"):
        return build(name, **arguments)  # type: ignore[arg-type]


def sample(name: str, batch: int = 2, device: str = "meta") -> Tensor:
    model = spec(name)
    if model.kind == "tokens":
        return torch.zeros(batch, *model.shape, dtype=torch.long, device=device)
    return torch.zeros(batch, *model.shape, device=device)


# Counted by torchvision 0.28, by the papers' authors or by the released weights, not by us.
PUBLISHED = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "alexnet": 61_100_840,
    "googlenet": 6_624_904,
    "inception_v3": 23_834_568,
    "gpt2_small": 124_439_808,
    "gpt2_medium": 354_823_168,
    "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "llama_160m": 162_417_408,
    "mixtral_8x7b": 46_702_792_704,
    "olmoe_1b_7b": 6_919_161_856 - 16 * 2 * 2048,  # without its norms of queries and keys
    "llama_1b": 1_235_814_400,
    "llama_3b": 3_212_749_824,
    "llama_8b": 8_030_261_248,
}


@pytest.mark.parametrize("name", NAMES)
def test_parameter_count_is_the_published_one(name: str) -> None:
    counted = parameters(on_meta(name))
    assert counted == spec(name).parameters
    assert counted == PUBLISHED.get(name, counted)


@pytest.mark.parametrize(("name", "count"), [("googlenet", 13_004_888), ("inception_v3", 27_161_264)])
def test_auxiliary_classifiers_add_their_parameters(name: str, count: int) -> None:
    assert parameters(on_meta(name, auxiliary=True)) == count


@pytest.mark.parametrize(("name", "tensors"), [("resnet18", 62), ("resnet50", 161), ("vgg19", 38), ("alexnet", 16)])
def test_number_of_gradient_tensors_is_torchvisions(name: str, tensors: int) -> None:
    assert len(list(on_meta(name).parameters())) == tensors


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_cifar_resnets_count_by_closed_form_and_as_table_6_of_the_paper(depth: int, millions: float) -> None:
    n = (depth - 2) // 6
    stem = 3 * 16 * 9 + 2 * 16
    body = 0
    for previous, width in ((16, 16), (16, 32), (32, 64)):
        convolutions = 9 * previous * width + (2 * n - 1) * 9 * width * width
        body += convolutions + 2 * n * 2 * width
    counted = parameters(on_meta(f"resnet{depth}"))
    assert counted == stem + body + 64 * 10 + 10
    assert counted / 1e6 == pytest.approx(millions, abs=0.03)


def test_transformer_counts_by_closed_form() -> None:
    width, layers, vocabulary, context = 64, 2, 256, 256
    block = 12 * width**2 + 13 * width
    assert spec("gpt2_tiny").parameters == (vocabulary + context) * width + layers * block + 2 * width
    heads, kv_heads, feed_forward = 4, 2, 192
    attention = 2 * width**2 + 2 * width * width * kv_heads // heads
    block = attention + 3 * width * feed_forward + 2 * width
    assert spec("llama_tiny").parameters == vocabulary * width + layers * block + width


def test_names_are_unique_and_aliases_resolve() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert spec("resnet20") is spec("resnet20_cifar")
    assert "resnet20" not in NAMES
    assert {spec(name).name for name in models_of("torch")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_forward_gives_one_logit_a_class(name: str) -> None:
    model = spec(name)
    logits = on_meta(name)(sample(name))
    leading = (2, *model.shape) if model.kind == "tokens" else (2,)
    assert logits.shape == (*leading, model.classes)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["resnet20", "resnet18", "mlp"])
def test_small_models_train_on_digit_sized_images(name: str, channels: int) -> None:
    torch.manual_seed(0)
    model = build(name, classes=10, input_shape=(channels, 32, 32))
    x, y = torch.randn(8, channels, 32, 32), torch.randint(10, (8,))
    losses = _train(model, x, y, steps=8, rate=0.02)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("name", ["gpt2_tiny", "llama_tiny"])
def test_small_transformers_train(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, classes=50, input_shape=(16,))
    tokens = torch.randint(50, (4, 17))
    losses = _train(model, tokens[:, :-1], tokens[:, 1:], steps=20, rate=0.1)
    assert losses[0] == pytest.approx(torch.tensor(50.0).log().item(), rel=0.1)  # untrained: uniform
    assert losses[-1] < 0.7 * losses[0]


def _train(model: nn.Module, x: Tensor, y: Tensor, *, steps: int, rate: float) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = training_loss(model(x), y)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", ["gpt2_tiny", "llama_tiny"])
def test_transformers_do_not_look_ahead(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, input_shape=(16,)).eval()
    tokens = torch.randint(256, (1, 16))
    changed = tokens.clone()
    changed[0, 9] = (tokens[0, 9] + 1) % 256
    with torch.no_grad():
        difference = (model(tokens) - model(changed)).abs().amax(dim=-1)[0]
    assert difference[:9].max() == 0
    assert difference[9:].min() > 0


@settings(max_examples=25)
@given(shift=st.integers(0, 20), seed=st.integers(0, 2**16))
def test_rotary_scores_depend_on_distance_alone(shift: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 8, generator=generator)
    cosines, sines = rotary_tables(32, 8, 10_000.0, torch.device("cpu"))

    def at(vector: Tensor, position: int) -> Tensor:
        return rotate(vector.expand(1, 1, 32, 8), cosines, sines)[0, 0, position]

    assert at(query, 7) @ at(key, 3) == pytest.approx((at(query, 7 + shift) @ at(key, 3 + shift)).item(), abs=1e-4)
    assert at(query, shift).norm() == pytest.approx(query.norm().item(), rel=1e-5)


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_auxiliary_logits_come_in_training_only(name: str) -> None:
    model = on_meta(name, auxiliary=True, classes=7)
    output = model.train()(sample(name))
    assert isinstance(output, AuxiliaryLogits)
    assert {logits.shape for logits in (output.logits, *output.auxiliary)} == {(2, 7)}
    assert isinstance(model.eval()(sample(name)), Tensor)
    assert isinstance(on_meta(name).train()(sample(name)), Tensor)


def test_training_loss_weighs_auxiliary_logits() -> None:
    torch.manual_seed(0)
    main, first, second = torch.randn(3, 4, 5)
    target = torch.randint(5, (4,))
    expected = cross_entropy(main, target) + 0.25 * (cross_entropy(first, target) + cross_entropy(second, target))
    loss = training_loss(AuxiliaryLogits(main, (first, second)), target, auxiliary_weight=0.25)
    assert loss.item() == pytest.approx(expected.item())


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_convolutions_keep_channels_last(name: str) -> None:
    """Traced with fake tensors, which know the strides that real kernels give (meta tensors do not)."""
    lost = []

    def check(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if not all(x.is_contiguous(memory_format=torch.channels_last) for x in (*inputs, output)):
            lost.append(module)

    model = on_meta(name)
    with FakeTensorMode():
        for module in model.modules():
            for key, weight in module.named_parameters(recurse=False):
                fake = torch.empty(weight.shape)
                if weight.dim() == 4:
                    fake = fake.contiguous(memory_format=torch.channels_last)
                setattr(module, key, nn.Parameter(fake))
            for key, buffer in module.named_buffers(recurse=False):
                setattr(module, key, torch.empty(buffer.shape, dtype=buffer.dtype))
            if isinstance(module, nn.Conv2d | nn.BatchNorm2d | Residual):
                module.register_forward_hook(check)
        model(sample(name, device="cpu").to(memory_format=torch.channels_last))
    assert not lost


def test_channels_last_gives_the_same_logits() -> None:
    torch.manual_seed(0)
    model = build("resnet20", input_shape=(3, 32, 32)).eval()
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = model(x)
        channels_last = model.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(channels_last, expected, rtol=1e-4, atol=1e-5)


TRACED: list[tuple[str, dict[str, object]]] = [
    ("resnet18", {}),
    ("mlp", {}),
    ("gpt2_tiny", {}),
    ("llama_tiny", {}),
    ("resnet20_cifar", {}),
    ("vgg16", {"batch_norm": True}),
    ("alexnet", {}),
    ("googlenet", {"auxiliary": True}),
    ("inception_v3", {"auxiliary": True}),
]
"""One of each family; the deep ones take seconds to trace and come last."""


@pytest.mark.parametrize(("name", "options"), TRACED[: examples(4, nightly=len(TRACED))])
def test_models_compile_to_one_graph(name: str, options: dict[str, object]) -> None:
    """fullgraph=True fails on the first graph break; traced without compiling kernels."""
    torch.compiler.reset()
    model = on_meta(name, **options)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    target = torch.zeros(2, *(spec(name).shape if spec(name).kind == "tokens" else ()), dtype=torch.long, device="meta")
    torch.autograd.backward(training_loss(compiled(sample(name)), target))
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_seed_decides_the_parameters() -> None:
    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return torch.cat([parameter.flatten() for parameter in build("resnet20").parameters()])

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_residual_networks_start_with_hes_deviation() -> None:
    torch.manual_seed(0)
    model = build("resnet20")
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            fan_out = layer.out_channels * 9
            assert layer.weight.std().item() == pytest.approx(sqrt(2 / fan_out), rel=0.15)


def test_zero_init_residual_starts_every_block_as_its_shortcut() -> None:
    model = build("resnet18", zero_init_residual=True)
    block = next(module for module in model.modules() if isinstance(module, Residual))
    x = torch.rand(2, 64, 4, 4)
    torch.testing.assert_close(block(x), x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"name": "resnet50x"},
            "program torch has no model 'resnet50x'; did you mean 'resnet50'? (available: ",
        ),
        ({"name": "vgg16", "input_shape": (3, 31, 64)}, "images of 31x64: need at least 32x32"),
        ({"name": "inception_v3", "input_shape": (3, 128, 128), "auxiliary": True}, "need at least 299x299"),
        ({"name": "resnet18", "input_shape": (32, 32)}, "input shape [32, 32]: expected [channels, height, width]"),
        ({"name": "gpt2_tiny", "input_shape": (1, 8)}, "input shape [1, 8]: expected [length]"),
        ({"name": "gpt2_tiny", "input_shape": (300,)}, "sequence length 300: this model has 256 positions"),
        ({"name": "mlp", "input_shape": ()}, "input shape []: expected positive integers"),
        ({"name": "mlp", "input_shape": (0,)}, "input shape [0]: expected positive integers"),
        ({"name": "mlp", "classes": 0}, "classes 0: expected a positive integer"),
        ({"name": "mlp", "classes": True}, "classes True: expected a positive integer"),
        ({"name": "mlp", "hiden": (4,)}, "model mlp: unknown option 'hiden'; expected hidden"),
        ({"name": "llama_tiny", "dropout": 0.1}, "model llama_tiny: unknown option 'dropout'; expected none"),
    ],
)
def test_a_wrong_request_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError) as caught, torch.device("meta"):
        build(**arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize("name", [name for name in IMAGE_MODELS if spec(name).smallest > 1])
def test_the_smallest_image_is_the_layers_own_limit(name: str) -> None:
    smallest = spec(name).smallest
    model = on_meta(name)
    model(torch.zeros(2, 3, smallest, smallest, device="meta"))
    with pytest.raises(RuntimeError):
        model(torch.zeros(2, 3, smallest - 1, smallest - 1, device="meta"))


def test_longer_sequences_need_more_positions() -> None:
    model = on_meta("gpt2_tiny", input_shape=(300,), context=300)
    assert parameters(model) == spec("gpt2_tiny").parameters + (300 - 256) * 64


def test_hidden_layers_are_configurable() -> None:
    assert parameters(on_meta("mlp", input_shape=(5,), classes=3, hidden=(7,))) == 5 * 7 + 7 + 7 * 3 + 3
    assert parameters(on_meta("mlp", input_shape=(5,), classes=3, hidden=())) == 5 * 3 + 3
