"""FLOPs of one training step, and the peak of a device: the two sides of model FLOPs utilization (MFU).

Conventions, so that the figure can be compared:

- One multiply-add is two FLOPs. Papers and torchvision print multiply-adds ("4.09 GFLOPs" of ResNet-50 is 8.18
  here).
- Matrix products and convolutions are counted, forward and backward. Element-wise work, normalisation, pooling,
  the loss and the optimizer are not, as in A. Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B.
- The backward pass is counted, not taken for twice the forward one: a first layer needs no gradient of its input,
  a frozen layer none of its weights.
- Attention is counted over the full square, causal or not, and without the recomputation of fused kernels: the
  model's FLOPs, not the hardware's. Recomputation that the model itself asks for (checkpointing) is counted.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

Precision = Literal["fp32", "tf32", "bf16", "fp16"]


class FlopCountError(RuntimeError):
    """The model cannot be counted, as it cannot run without data."""


@dataclass(frozen=True)
class FlopCount:
    """FLOPs of one step over the example batch, and the model's parameters, frozen ones included."""

    forward: int
    backward: int
    parameters: int

    @property
    def total(self) -> int:
        return self.forward + self.backward


def count_step_flops(model: nn.Module, example_inputs: Tensor | Sequence[Tensor]) -> FlopCount:
    """Count a training step of ``model`` on a batch like ``example_inputs`` (shapes and types are looked at alone).

    Runs a copy of the model on the meta device, in training mode: no memory, no arithmetic, no kernel, the same
    count wherever the model lives, and nothing of the model changes. The count grows with the batch in proportion.
    DDP and ``torch.compile`` wrappers are looked through. Call it before hooks with side effects are registered.

    Raises:
        FlopCountError: the model reads values of its tensors, or has no output that depends on a parameter.
    """
    bare = _unwrap(model)
    twin = _on_meta(bare).train()
    inputs = (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)
    examples = [torch.empty_like(tensor, device="meta", requires_grad=False) for tensor in inputs]
    with FlopCounterMode(display=False) as counter, torch.enable_grad():
        try:
            outputs = [tensor.sum() for tensor in _tensors(twin(*examples)) if tensor.requires_grad]
            forward = counter.get_total_flops()
            if outputs:
                torch.autograd.backward(outputs)
        except RuntimeError as error:
            name = type(bare).__name__
            raise FlopCountError(f"{name} does not run on the meta device, so not counted: {error}") from error
    if not outputs:
        raise FlopCountError(f"{type(bare).__name__}: no output depends on a parameter that is trained")
    total = counter.get_total_flops()
    return FlopCount(forward, total - forward, sum(parameter.numel() for parameter in bare.parameters()))


def _unwrap(model: nn.Module) -> nn.Module:
    while True:
        compiled = getattr(model, "_orig_mod", None)  # not by its class: that import takes a second
        if isinstance(compiled, nn.Module):
            model = compiled
        elif isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model


def _on_meta(model: nn.Module) -> nn.Module:
    """Copy a module with every parameter and buffer replaced by a meta tensor; shared ones stay shared."""
    memo: dict[int, object] = {}
    for parameter in model.parameters():
        empty = torch.empty_like(parameter, device="meta")
        memo[id(parameter)] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    return copy.deepcopy(model, memo)


def _tensors(output: object) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from _tensors(value)


@dataclass(frozen=True)
class _Peak:
    """Dense peak in TFLOPS; None where the hardware has no such path."""

    fp32: float
    tf32: float | None = None
    half: float | None = None  # fp16
    bf16: float | None = None


_A100 = _Peak(19.5, 156, 312, 312)
_HOPPER_SXM = _Peak(66.9, 494.7, 989.4, 989.4)

# By the device's name as CUDA reports it, in lower case, without maker and memory size; see _key. Vendor figures at
# boost clock. Where a data sheet prints the rate with 2:4 sparsity, half of it stands here.
_PEAKS: dict[str, _Peak] = {
    # Tesla K80 data sheet: 8.73 for the board with GPU Boost, which is two devices.
    "k80": _Peak(8.73 / 2),
    # Tesla P100 data sheet.
    "p100 pcie": _Peak(9.3, half=18.7),
    "p100 sxm": _Peak(10.6, half=21.2),
    # Tesla V100 data sheet, V100S column included.
    "v100 pcie": _Peak(14.0, half=112),
    "v100 sxm": _Peak(15.7, half=125),
    "v100s pcie": _Peak(16.4, half=130),
    # Tesla T4 data sheet.
    "t4": _Peak(8.1, half=65),
    # A100 Tensor Core GPU data sheet; PCIe and SXM have the same peak.
    "a100": _A100,
    "a100 pcie": _A100,
    "a100 sxm": _A100,
    # A10 Tensor Core GPU data sheet. The cloud's A10G is another part, whose peak is not published.
    "a10": _Peak(31.2, 62.5, 125, 125),
    # L4 data sheet (halved).
    "l4": _Peak(30.3, 60, 121, 121),
    # L40 and L40S data sheets, which print both rates.
    "l40": _Peak(90.5, 90.5, 181.05, 181.05),
    "l40s": _Peak(91.6, 183, 362.05, 362.05),
    # H100 architecture white paper, table 2; CUDA calls the SXM part "H100 80GB HBM3".
    "h100 hbm3": _HOPPER_SXM,
    "h100 sxm": _HOPPER_SXM,
    "h100 pcie": _Peak(51.2, 378, 756, 756),
    # H100 NVL and H200 NVL data sheets (halved).
    "h100 nvl": _Peak(60, 417.5, 835.5, 835.5),
    "h200 nvl": _Peak(60, 417.5, 835.5, 835.5),
    # H200 data sheet: the H100's compute with more memory.
    "h200": _HOPPER_SXM,
    "h200 sxm": _HOPPER_SXM,
    # HGX B200 page: an eighth of 600, of 18,000 / 2 and of 36,000 / 2.
    "b200": _Peak(75, 1125, 2250, 2250),
    "b200 sxm": _Peak(75, 1125, 2250, 2250),
}


def device_peak_flops(name: str, precision: str) -> float | None:
    """Dense peak FLOP/s of a device by its name, as "NVIDIA H200" or "Tesla V100-SXM2-16GB".

    None when the device is not in the table, is a share of one (MIG), or has no unit for that precision; MFU is
    not shown then.

    Raises:
        ValueError: ``precision`` is none of fp32, tf32, bf16, fp16.
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}")
    peak = _PEAKS.get(_key(name))
    if peak is None:
        return None
    tera = peak.half if precision == "fp16" else getattr(peak, precision)
    return None if tera is None else tera * 1e12


def _key(name: str) -> str:
    """Bring a device's name to the table's form: "NVIDIA A100-SXM4-80GB" -> "a100 sxm"."""
    words = [re.sub(r"^sxm\d*$", "sxm", word) for word in re.split(r"[\s_-]+", name.lower().strip())]
    return " ".join(word for word in words if not re.fullmatch(r"nvidia|tesla|\d+gb", word))
