"""PyTorch's own post-training quantization at 8 bits (torch.ao, graph mode, on the CPU), for comparison."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from scalecurve_worker.extras.quantization.integer_inference import Scheme

NATIVE_BITS = 8


@dataclass(frozen=True)
class Native:
    """A network of PyTorch's integer kernels and the bytes of its parameters."""

    module: nn.Module
    bytes: int

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.module(inputs.cpu().contiguous())
        return logits


def native(model: nn.Module, calibration: Sequence[Tensor], scheme: Scheme) -> Native | None:
    """The model by torch.ao's defaults for this scheme of weights; None where this build of torch has no kernels.

    Weights are symmetric; activations have a zero-point and 128 places between the ends that calibration saw (one bit
    stays free, for CPUs that add up pairs of products in 16 bits), and so do the logits.
    """
    if not calibration or torch.backends.quantized.engine in ("", "none"):
        return None
    with warnings.catch_warnings():
        # It is to be replaced by torchao one day, and says so at every call.
        warnings.simplefilter("ignore")
        try:
            module = _converted(copy.deepcopy(model).cpu().float().eval(), calibration, scheme)
        except (ImportError, NotImplementedError):
            return None
    return Native(module, _bytes(module))


def _converted(model: nn.Module, calibration: Sequence[Tensor], scheme: Scheme) -> nn.Module:
    from torch.ao.quantization import QConfigMapping, default_per_channel_qconfig, default_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    mapping = QConfigMapping().set_global(default_per_channel_qconfig if scheme == "channel" else default_qconfig)
    inputs = calibration[0].cpu().float().contiguous()
    observed = prepare_fx(model, mapping, (inputs,))
    with torch.no_grad():
        for batch in calibration:
            observed(batch.cpu().float().contiguous())
    module: nn.Module = convert_fx(observed)
    return module


def _bytes(module: nn.Module) -> int:
    """Of weights, their steps and zero-points, biases, and the steps of activations, as they are kept."""
    total = 0
    for value in module.state_dict().values():
        for tensor in value if isinstance(value, tuple) else (value,):
            if not isinstance(tensor, Tensor):
                continue
            total += tensor.numel() * tensor.element_size()
            if tensor.is_quantized:
                channels = tensor.shape[0] if tensor.qscheme() == torch.per_channel_affine else 1
                total += channels * 16
    return total
