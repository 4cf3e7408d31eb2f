from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from scalecurve_worker.torch.flops import FlopCountError, count_step_flops, device_peak_flops
from scalecurve_worker.torch.models import build, spec, training_loss


def on_meta(name: str, **options: object) -> nn.Module:
    with torch.device("meta"):
        return build(name, **options)  # type: ignore[arg-type]


def resnet50_convolutions() -> tuple[int, int]:
    """Multiply-adds of the first convolution, and of all layers with weights, by hand for 224x224."""
    stem = 112 * 112 * 64 * 3 * 7 * 7
    macs = stem
    features, side = 64, 56
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            out = side // stride if block == 0 else side
            macs += side * side * features * width  # 1x1, before the stride
            macs += out * out * width * width * 9  # 3x3, with the stride
            macs += out * out * width * 4 * width
            if block == 0:
                macs += out * out * features * 4 * width
            features, side = 4 * width, out
    return stem, macs + 2048 * 1000


def test_resnet50_is_the_sum_of_its_convolutions() -> None:
    stem, macs = resnet50_convolutions()
    counted = count_step_flops(on_meta("resnet50"), torch.empty(1, 3, 224, 224, device="meta"))
    assert counted.forward == 2 * macs
    assert counted.forward / 2e9 == pytest.approx(4.09, abs=0.005)
    assert counted.backward == 2 * (2 * macs - stem)  # no gradient of the image
    assert counted.total == counted.forward + counted.backward


@pytest.mark.parametrize(
    ("name", "giga_macs"),
    # Printed by torchvision beside its weights.
    [("resnet18", 1.814), ("resnet152", 11.514), ("vgg16", 15.47), ("alexnet", 0.714), ("inception_v3", 5.713)],
)
def test_forward_is_as_torchvision_prints_it(name: str, giga_macs: float) -> None:
    counted = count_step_flops(on_meta(name), torch.empty(2, *spec(name).shape, device="meta"))
    assert counted.forward / 2 / 2e9 == pytest.approx(giga_macs, abs=0.001)


def test_gpt2_is_the_closed_form_of_the_palm_paper() -> None:
    layers, width, length, vocabulary = 12, 768, 1024, 50_257
    counted = count_step_flops(on_meta("gpt2_small"), torch.zeros(3, length, dtype=torch.long))
    per_token = 2 * (12 * layers * width**2 + vocabulary * width) + 4 * layers * length * width
    assert counted.forward == 3 * length * per_token
    assert counted.backward == 2 * counted.forward


def test_llama_counts_grouped_heads_by_their_width() -> None:
    length = 2048
    counted = count_step_flops(on_meta("llama_8b"), torch.zeros(1, length, dtype=torch.long))
    weights = spec("llama_8b").parameters - 128_256 * 4096 - (2 * 32 + 1) * 4096  # no embedding, no norms
    assert counted.forward == length * (2 * weights + 4 * 32 * length * 4096)


@given(batch=st.integers(1, 64))
def test_the_count_is_in_proportion_to_the_batch(batch: int) -> None:
    model = nn.Linear(3, 5)
    counted = count_step_flops(model, torch.zeros(batch, 3))
    assert counted.forward == counted.backward == 2 * 15 * batch


def counted_on_cpu(model: nn.Module, x: Tensor, y: Tensor) -> int:
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        torch.autograd.backward(training_loss(model(x), y))
    return int(counter.get_total_flops())


def test_a_real_step_on_the_cpu_has_the_same_count() -> None:
    image, tokens = torch.randn(2, 3, 32, 32), torch.randint(256, (2, 64))
    convolutional, transformer = build("resnet20"), build("llama_tiny")
    label = torch.randint(10, (2,))
    assert count_step_flops(convolutional, image).total == counted_on_cpu(convolutional, image, label)
    assert count_step_flops(transformer, tokens).total == counted_on_cpu(transformer, tokens, tokens)


class RealOperations(TorchDispatchMode):
    """Notes every operation whose result is not on the meta device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.device.type != "meta":
            self.seen.append(str(func))
        return result


def test_counting_leaves_model_and_random_state_alone_and_touches_no_memory() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(1), nn.Linear(144, 2))
    model.eval()
    x = torch.randn(2, 3, 8, 8)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random_state = torch.get_rng_state()
    with RealOperations() as real:
        count_step_flops(model, x)
    assert real.seen == []
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not model.training
    assert all(parameter.grad is None and parameter.device.type == "cpu" for parameter in model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_frozen_layer_costs_no_gradient_of_its_weights() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    model[0].requires_grad_(False)
    counted = count_step_flops(model, torch.zeros(1, 3))
    assert (counted.forward, counted.backward) == (2 * (12 + 20), 2 * 20)


def test_auxiliary_classifiers_are_counted_in_a_training_step() -> None:
    x = torch.empty(2, 3, 224, 224, device="meta")
    plain = count_step_flops(on_meta("googlenet").eval(), x)
    with_auxiliary = count_step_flops(on_meta("googlenet", auxiliary=True).eval(), x)
    assert with_auxiliary.forward > plain.forward


class ReadsValues(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * x.sum().item()


def test_a_model_that_reads_values_is_refused_by_name() -> None:
    with pytest.raises(FlopCountError, match="ReadsValues does not run on the meta device"):
        count_step_flops(ReadsValues(3, 5), torch.zeros(1, 3))
    with pytest.raises(FlopCountError, match="Linear: no output depends on a parameter"):
        count_step_flops(nn.Linear(3, 5).requires_grad_(False), torch.zeros(1, 3))


# Name, multiprocessors, boost clock in GHz, then FLOPs a clock of one multiprocessor in fp32, tf32, fp16.
ARCHITECTURE = [
    ("Tesla K80", 13, 0.875, 384, None, None),
    ("Tesla P100-PCIE-16GB", 56, 1.303, 128, None, 256),
    ("Tesla P100-SXM2-16GB", 56, 1.480, 128, None, 256),
    ("Tesla V100-PCIE-32GB", 80, 1.380, 128, None, 1024),
    ("Tesla V100-SXM2-16GB", 80, 1.530, 128, None, 1024),
    ("Tesla V100-SXM3-32GB", 80, 1.530, 128, None, 1024),
    ("Tesla V100S-PCIE-32GB", 80, 1.597, 128, None, 1024),
    ("Tesla T4", 40, 1.590, 128, None, 1024),
    ("NVIDIA A100-SXM4-80GB", 108, 1.410, 128, 1024, 2048),
    ("NVIDIA A100 80GB PCIe", 108, 1.410, 128, 1024, 2048),
    ("A100-PCIE-40GB", 108, 1.410, 128, 1024, 2048),
    ("NVIDIA A10", 72, 1.695, 256, 512, 1024),
    ("NVIDIA L4", 58, 2.040, 256, 512, 1024),
    ("NVIDIA L40", 142, 2.490, 256, 256, 512),
    ("NVIDIA L40S", 142, 2.520, 256, 512, 1024),
    ("NVIDIA H100 PCIe", 114, 1.755, 256, 2048 * 1.620 / 1.755, 4096 * 1.620 / 1.755),
    ("NVIDIA H100 80GB HBM3", 132, 1.980, 256, 2048 * 1.830 / 1.980, 4096 * 1.830 / 1.980),
    ("NVIDIA H200", 132, 1.980, 256, 2048 * 1.830 / 1.980, 4096 * 1.830 / 1.980),
    ("NVIDIA B200", 148, 1.980, 256, 4096 * 1.860 / 1.980, 8192 * 1.860 / 1.980),
]


@pytest.mark.parametrize(("name", "processors", "clock", "fp32", "tf32", "fp16"), ARCHITECTURE)
def test_peaks_agree_with_the_architecture(
    name: str, processors: int, clock: float, fp32: float, tf32: float | None, fp16: float | None
) -> None:
    for precision, rate in (("fp32", fp32), ("tf32", tf32), ("fp16", fp16)):
        peak = device_peak_flops(name, precision)
        if rate is None:
            assert peak is None
        else:
            assert peak == pytest.approx(processors * clock * 1e9 * rate, rel=0.02)


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA H200", 989.4e12),
        ("H100 SXM5 80GB", 989.4e12),
        ("NVIDIA GB300", 2500e12),
        ("NVIDIA H100 NVL", 835.5e12),
        ("Tesla T4", None),
    ],
)
def test_bf16_is_there_from_ampere_on(name: str, bf16: float | None) -> None:
    assert device_peak_flops(name, "bf16") == bf16


@pytest.mark.parametrize(
    "name",
    [
        "",
        "cpu",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H20",
        "NVIDIA GH200 480GB",
        "NVIDIA A10G",
        "NVIDIA A100X",
        "GRID A100-4C",
        "NVIDIA GeForce RTX 4090",
        "H100",  # PCIe and SXM differ
        "V100",
    ],
)
def test_other_devices_have_no_peak(name: str) -> None:
    assert device_peak_flops(name, "fp32") is None


def test_an_unknown_precision_is_named() -> None:
    with pytest.raises(ValueError, match="precision 'fp8': expected one of fp32, tf32, bf16, fp16"):
        device_peak_flops("NVIDIA H200", "fp8")
