from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor, nn

from scalecurve_api.programs.accuracy import Quantization
from scalecurve_worker.features.quantization.calibration import calibrate
from scalecurve_worker.features.quantization.evaluation import quantize
from scalecurve_worker.features.quantization.folding import check_quantizable, folded
from scalecurve_worker.features.quantization.integer_inference import (
    Grid,
    Integers,
    Scheme,
    activation_grid,
    round_weights,
    symmetric_grid,
    weight_grid,
)
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch.models import build

CPU = torch.device("cpu")


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_signed_grid_by_hand() -> None:
    # Three bits: -3 .. 3, so that 1.5 is worth three steps of a half.
    grid = symmetric_grid(numbers(1.5)[0], 3)
    assert grid.whole(numbers(-9, -1.5, -0.76, -0.74, 0, 0.25, 0.26, 0.75, 1.5, 9)).tolist() == [
        -3, -3, -2, -1, 0, 0, 1, 2, 3, 3,
    ]  # fmt: skip
    assert grid.nearest(numbers(-0.76, 0.26)).tolist() == [-1.0, 0.5]


def test_two_bits_are_three_places_of_weights_and_four_of_what_is_never_negative() -> None:
    weights = weight_grid(numbers(-2.0, 0.9, 1.1, 0.1), 2, "tensor")
    assert weights.whole(numbers(-2.0, 0.9, 1.1, 0.1)).tolist() == [-1, 0, 1, 0]
    outputs = activation_grid(0.0, 3.0, 2, CPU)
    assert outputs.whole(numbers(-1, 0.4, 0.6, 1.4, 3, 5)).tolist() == [0, 0, 1, 1, 3, 3]


def test_channels_have_steps_of_their_own() -> None:
    weight = torch.tensor([[1.0, -0.5], [0.01, -0.02]])
    grid = weight_grid(weight, 8, "channel")
    assert grid.whole(weight).tolist() == [[127, -64], [64, -127]]
    assert weight_grid(weight, 8, "tensor").whole(weight).tolist() == [[127, -64], [1, -3]]


def test_of_zeros_comes_zero() -> None:
    for scheme in ("tensor", "channel"):
        assert weight_grid(torch.zeros(2, 3), 4, scheme).nearest(torch.zeros(2, 3)).eq(0).all()
    assert activation_grid(0.0, 0.0, 4, CPU).whole(torch.zeros(2)).tolist() == [0, 0]


matrices = arrays("float32", (3, 4), elements=st.floats(-1000, 1000, width=32))
bit_counts = st.integers(2, 16)
schemes: st.SearchStrategy[Scheme] = st.sampled_from(["tensor", "channel"])


@given(matrices, bit_counts, schemes)
def test_a_quantizer_keeps_its_promises(values: object, bits: int, scheme: Scheme) -> None:
    weight = torch.as_tensor(values)
    grid = weight_grid(weight, bits, scheme)
    there = grid.nearest(weight)
    assert torch.equal(grid.nearest(there), there)  # idempotent
    assert torch.equal(grid.nearest(there.float()), there)  # also after a float32 held it
    assert ((there - weight.double()).abs() <= grid.step / 2 * (1 + 1e-9)).all()
    assert torch.equal(grid.nearest(-weight), -there)  # symmetric
    assert grid.nearest(torch.zeros(3, 1)).eq(0).all()
    whole = grid.whole(weight)
    assert torch.equal(whole, whole.round())
    assert whole.abs().max() <= 2 ** (bits - 1) - 1


@given(matrices, bit_counts)
def test_a_channels_bound_is_never_above_the_tensors(values: object, bits: int) -> None:
    weight = torch.as_tensor(values)
    whole, apart = (weight_grid(weight, bits, scheme) for scheme in ("tensor", "channel"))
    assert (apart.step <= whole.step).all()
    assert ((apart.nearest(weight) - weight.double()).abs() <= whole.step / 2 * (1 + 1e-9)).all()


@given(st.floats(-50, 0), st.floats(0, 50), bit_counts, st.floats(-100, 100))
def test_activations_clamp_to_what_was_seen(low: float, high: float, bits: int, value: float) -> None:
    grid = activation_grid(low, high, bits, CPU)
    there = grid.nearest(numbers(value))
    assert torch.equal(grid.nearest(there), there)
    limit = max(-low, high)
    limit = limit if limit > 2.0**-126 else 1.0
    inside = min(max(value, -limit if low < 0 else 0.0), limit)
    assert abs(float(there) - inside) <= float(grid.step) / 2 * (1 + 1e-9)


class Small(nn.Module):
    """Two convolutions with a sum around the second, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        x = F.relu(self.second(x) + x)
        logits: Tensor = self.last(x[:, :, 1, 1])
        return logits


def place(real: Tensor, grid: Grid) -> Tensor:
    """Round to the even one and clamp, on int64 at the end."""
    return torch.round(real / grid.step).clamp(grid.lowest, grid.highest).long()


def convolved(q: Tensor, weight: Tensor) -> Tensor:
    """A 3x3 convolution with padding 1 in int64, patch by patch."""
    padded = F.pad(q, (1, 1, 1, 1))
    out = torch.zeros(q.shape[0], weight.shape[0], *q.shape[2:], dtype=torch.int64)
    for row in range(q.shape[2]):
        for column in range(q.shape[3]):
            patch = padded[:, None, :, row : row + 3, column : column + 3]
            out[:, :, row, column] = (patch * weight[None]).sum((2, 3, 4))
    return out


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
@pytest.mark.parametrize("scheme", ["tensor", "channel"])
def test_whole_numbers_give_what_int64_gives(scheme: Scheme, bits: int) -> None:
    torch.manual_seed(bits)
    model = Small()
    inputs = torch.randn(3, 2, 4, 4)
    graph = folded(model)
    seen = calibrate(graph, [inputs]).ranges
    network = Integers(graph, seen, scheme, bits, whole_bias=True)
    found = network.run(inputs)

    by_name = {node.name: grid for node, grid in network.grids.items()}
    x, first, add = by_name["x"], by_name["first"], by_name["add"]
    weights = [layer.weight.detach() for layer in (model.first, model.second, model.last)]
    grids = [weight_grid(weight, bits, scheme) for weight in weights]
    whole = [grid.whole(weight).long() for grid, weight in zip(grids, weights, strict=True)]
    steps = [grid.step.flatten() for grid in grids]
    q = place(inputs.double(), x)
    bias = torch.round(model.first.bias.detach().double() / (x.step * steps[0])).long()  # type: ignore[union-attr]
    sums = convolved(q, whole[0]) + bias.view(-1, 1, 1)
    q = place(sums.double() * (x.step * steps[0]).view(-1, 1, 1), first)
    assert first.lowest == 0  # ReLU is the end of the grid
    second = by_name["second"]
    inner = place(convolved(q, whole[1]).double() * (first.step * steps[1]).view(-1, 1, 1), second)
    q = place(inner.double() * second.step + q.double() * first.step, add)
    sums = q[:, :, 1, 1] @ whole[2].T
    sums += torch.round(model.last.bias.detach().double() / (add.step * steps[2])).long()
    assert torch.equal(found, sums.double() * (add.step * steps[2]))


def test_many_bits_come_close_and_few_do_not() -> None:
    torch.manual_seed(0)
    graph = folded(Small())
    inputs = torch.randn(8, 2, 4, 4)
    seen = calibrate(graph, [inputs]).ranges
    wanted = graph(inputs).detach()
    errors = [
        float((Integers(graph, seen, "channel", bits, whole_bias=True).run(inputs) - wanted).norm() / wanted.norm())
        for bits in (16, 8, 4, 2)
    ]
    assert errors == sorted(errors)
    assert errors[0] < 1e-3 < 0.1 < errors[-1]


@pytest.mark.parametrize("name", ["resnet20", "googlenet", "mlp"])
def test_folding_leaves_the_answers(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, classes=3, input_shape=(1, 32, 32))
    inputs = torch.randn(2, 1, 32, 32)
    with torch.no_grad():
        model.train()(torch.randn(4, 1, 32, 32))  # statistics that are not the first ones
        before = {key: value.clone() for key, value in model.state_dict().items()}
        graph = folded(model)
        wanted = model.eval()(inputs)
        assert torch.allclose(graph(inputs), wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in graph.modules())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "googlenet", "inception_v3", "resnet50", "resnet44", "mlp"])
def test_every_image_model_and_the_mlp_can_be_taken(name: str) -> None:
    with torch.device("meta"):
        check_quantizable(build(name))


class Odd(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class Branching(Odd):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > 0 else x


class Twice(Odd):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(super().forward(x))


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (Odd(nn.Linear(2, 2), nn.GELU()), "layers.1 (GELU)"),
        (Odd(nn.BatchNorm1d(2), nn.Linear(2, 2)), "layers.0 (BatchNorm1d) does not follow a layer"),
        (Odd(nn.Linear(2, 2), nn.LayerNorm(2)), "LayerNorm"),
        (Odd(nn.ReLU()), "no layer with weights"),
        (Branching(nn.Linear(2, 2)), "cannot be traced"),
        (Twice(nn.Linear(2, 2)), "layers.0 is used 2 times"),
    ],
)
def test_what_has_no_form_in_integers_is_refused_in_one_line(model: nn.Module, named: str) -> None:
    with pytest.raises(WorkloadError, match=r"^measure\.accuracy\.quantization: .*") as caught:
        check_quantizable(model)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["gpt2_tiny", "llama_tiny"])
def test_transformers_are_refused(name: str) -> None:
    with pytest.raises(WorkloadError, match=r"measure\.accuracy\.quantization"):
        check_quantizable(build(name))


@settings(max_examples=10)
@given(bit_counts, schemes)
def test_weights_alone_lie_on_their_grids(bits: int, scheme: Scheme) -> None:
    torch.manual_seed(0)
    graph = folded(Small())
    out = round_weights(graph, scheme, bits)
    for name in ("first", "second", "last"):
        weight, there = graph.get_parameter(f"{name}.weight"), out.get_parameter(f"{name}.weight")
        grid = weight_grid(weight, bits, scheme)
        assert torch.equal(there.double(), grid.nearest(weight).float().double())


def test_every_row_of_a_trained_network() -> None:
    torch.manual_seed(0)
    model = build("mlp", classes=2, input_shape=(1, 2, 4), hidden=[3])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    batches = [(torch.randn(8, 1, 2, 4), torch.randint(0, 2, (8,))) for _ in range(2)]
    facts = quantize(model, [inputs for inputs, _ in batches], batches, Quantization(bits=[16, 8, 2]))
    kinds = [(row.bits, row.scheme, row.stage) for row in facts.rows if row.stage != "torch"]
    assert kinds == [
        (bits, scheme, stage)
        for bits in (16, 8, 2)
        for scheme in ("tensor", "channel")
        for stage in ("weights", "activations", "biases")
    ]
    sizes = {(row.bits, row.scheme, row.stage): row.bytes for row in facts.rows}
    # 24 + 6 weights, 3 + 2 biases, and steps: one or five for weights, two for activations (input and hidden layer).
    assert facts.parameters == 35
    assert facts.float_bytes == 140
    assert sizes[8, "tensor", "weights"] == 30 + 2 * 4 + 5 * 4
    assert sizes[8, "channel", "weights"] == 30 + 5 * 4 + 5 * 4
    assert sizes[2, "tensor", "biases"] == 6 + 2 + 2 * 4 + 5 * 4 + 2 * 4
    assert sizes[16, "tensor", "biases"] == 60 + 2 * 4 + 5 * 8 + 2 * 4
    exact = [row for row in facts.rows if row.bits == 16]
    assert all(row.accuracy == facts.float_accuracy and row.error < 1e-3 for row in exact)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert [(each.layer, each.kind) for each in facts.histograms] == [
        ("layers.1", "weights"),
        ("layers.1", "biases"),
        ("layers.1", "activations"),
        ("layers.3", "weights"),
        ("layers.3", "biases"),
        ("layers.3", "activations"),
    ]
    assert [sum(each.counts) for each in facts.histograms] == [24, 3, 48, 6, 2, 32]
    assert facts.histograms[2].low == 0.0  # after its ReLU


@pytest.mark.skipif(torch.backends.quantized.engine in ("", "none"), reason="this build of torch has no int8 kernels")
def test_pytorchs_own_at_eight_bits_stands_beside() -> None:
    torch.manual_seed(0)
    model = build("resnet20", classes=3, input_shape=(1, 8, 8)).eval()
    batches = [(torch.randn(16, 1, 8, 8), torch.randint(0, 3, (16,)))]
    facts = quantize(model, [batches[0][0]], batches, Quantization(bits=[8]))
    native = [row for row in facts.rows if row.stage == "torch"]
    assert [row.scheme for row in native] == ["tensor", "channel"]
    ours = {row.scheme: row for row in facts.rows if row.stage == "biases"}
    for row in native:
        assert 0 < row.error < 0.3
        assert 0.9 < row.bytes / ours[row.scheme].bytes < 1.15
