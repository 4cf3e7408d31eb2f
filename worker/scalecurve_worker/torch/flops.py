"""FLOPs of one training step, and the peak of a device: the two sides of model FLOPs utilization (MFU).

Conventions, so that the figure can be compared:

- One multiply-add is two FLOPs. Papers and torchvision print multiply-adds ("4.09 GFLOPs" of ResNet-50 is 8.18
  here).
- Matrix products and convolutions are counted, forward and backward. Element-wise work, normalization, pooling,
  the loss and the optimizer are not, as in A. Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B.
- The backward pass is counted, not taken for twice the forward one: a first layer needs no gradient of its input,
  a frozen layer none of its weights.
- Attention is counted over the full square, causal or not, and without the recomputation of fused kernels: the
  model's FLOPs, not the hardware's. What activation checkpointing (torch's ``checkpoint_wrapper``) recomputes
  counts for the hardware's utilization (HFU) alone, as in PaLM's appendix B.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from scalecurve_worker.torch.recomputation import plain

Precision = Literal["fp32", "tf32", "bf16", "fp16"]


class FlopCountError(RuntimeError):
    """The model cannot be counted, as it cannot run without data."""


class FlopCount(NamedTuple):
    """FLOPs of one step over the example batch."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        return self.forward + self.backward


def count_step_flops(model: nn.Module, example: Tensor, *, recomputed: bool = False) -> FlopCount:
    """Count a training step of ``model`` on a batch like ``example`` (its shape and type are looked at alone).

    Runs a copy of the model on the meta device, in training mode: no memory, no arithmetic, no kernel, the same
    count wherever the model lives, and nothing of the model changes. The count grows with the batch in proportion.
    ``recomputed``: with what activation checkpointing computes again, for the hardware's utilization (HFU).
    Call it before hooks with side effects are registered.

    Raises:
        FlopCountError: the model reads values of its tensors, or has no output that depends on a parameter.
    """
    inputs = torch.empty_like(example, device="meta", requires_grad=False)
    return count_call_flops(model, (inputs,), {}, recomputed=recomputed)


def count_call_flops(
    model: nn.Module, args: Sequence[Any], keywords: Mapping[str, Any], *, recomputed: bool = False
) -> FlopCount:
    """Count the same of a call with these arguments, whose tensors are on the meta device.

    Raises:
        FlopCountError: as above, or the model cannot be copied.
    """
    name = type(model).__name__
    try:
        twin = _copy_to_meta(model).train()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise FlopCountError(f"{name} cannot be copied to the meta device, so not counted: {error}") from error
    if not recomputed:
        plain(twin)
    with FlopCounterMode(display=False) as counter, torch.enable_grad():
        try:
            outputs = [tensor.sum() for tensor in _tensors(twin(*args, **keywords)) if tensor.requires_grad]
            forward = counter.get_total_flops()
            if outputs:
                torch.autograd.backward(outputs)
        except RuntimeError as error:
            raise FlopCountError(f"{name} does not run on the meta device, so not counted: {error}") from error
    if not outputs:
        raise FlopCountError(f"{name}: no output depends on a parameter that is trained")
    return FlopCount(forward, counter.get_total_flops() - forward)


def _copy_to_meta(model: nn.Module) -> nn.Module:
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
    elif isinstance(output, list | tuple | Mapping):
        for value in output.values() if isinstance(output, Mapping) else output:
            yield from _tensors(value)


class _Peak(NamedTuple):
    """Dense peak in TFLOPS; None where the hardware has no such path."""

    fp32: float
    tf32: float | None = None
    fp16: float | None = None
    bf16: float | None = None


# By the device's name as CUDA reports it, in lower case, without maker and memory size; see _key. Vendor figures at
# boost clock, from the data sheets unless another source is named; half of a rate that is printed with 2:4 sparsity.
_PEAKS: dict[str, _Peak] = {
    "k80": _Peak(8.73 / 2),  # with GPU Boost; the board is two devices
    "p100 pcie": _Peak(9.3, fp16=18.7),
    "p100 sxm": _Peak(10.6, fp16=21.2),
    "v100 pcie": _Peak(14.0, fp16=112),
    "v100 sxm": _Peak(15.7, fp16=125),
    "v100s pcie": _Peak(16.4, fp16=130),
    "t4": _Peak(8.1, fp16=65),
    **dict.fromkeys(("a100", "a100 pcie", "a100 sxm"), _Peak(19.5, 156, 312, 312)),
    "a10": _Peak(31.2, 62.5, 125, 125),  # the cloud's A10G is another part, whose peak is not published
    "l4": _Peak(30.3, 60, 121, 121),  # halved
    "l40": _Peak(90.5, 90.5, 181.05, 181.05),
    "l40s": _Peak(91.6, 183, 362.05, 362.05),
    # H100 architecture white paper, table 2; CUDA calls the SXM part "H100 80GB HBM3". The H200 has its compute.
    **dict.fromkeys(("h100 hbm3", "h100 sxm", "h200", "h200 sxm"), _Peak(66.9, 494.7, 989.4, 989.4)),
    "h100 pcie": _Peak(51.2, 378, 756, 756),  # the white paper too
    **dict.fromkeys(("h100 nvl", "h200 nvl"), _Peak(60, 417.5, 835.5, 835.5)),  # halved
    # HGX B200 page: an eighth of 600, of 18,000 / 2 and of 36,000 / 2.
    # The HGX B300 has the B200's rates in these precisions; CUDA calls it "B300 SXM6 AC".
    **dict.fromkeys(("b200", "b200 sxm", "b300", "b300 sxm", "b300 sxm ac"), _Peak(75, 1125, 2250, 2250)),
    # NVL72 pages: a 72nd of 5,760, of 180,000 / 2 and of 360,000 / 2.
    **dict.fromkeys(("gb200", "gb300"), _Peak(80, 1250, 2500, 2500)),
}


def device_peak_flops(name: str, precision: str) -> float | None:
    """Look up the dense peak FLOP/s of a device by its name, as "NVIDIA H200" or "Tesla V100-SXM2-16GB".

    None when the device is not in the table, is a share of one (MIG), or has no unit for that precision; MFU is
    not shown then.

    Raises:
        ValueError: ``precision`` is none of fp32, tf32, bf16, fp16.
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}")
    tera: float | None = getattr(_PEAKS.get(_key(name)), precision, None)
    return None if tera is None else tera * 1e12


def _key(name: str) -> str:
    """Bring a device's name to the table's form: "NVIDIA A100-SXM4-80GB" -> "a100 sxm"."""
    words = [re.sub(r"^sxm\d*$", "sxm", word) for word in re.split(r"[\s_-]+", name.lower().strip())]
    return " ".join(word for word in words if not re.fullmatch(r"nvidia|tesla|\d+gb", word))
