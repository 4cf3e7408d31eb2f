"""Evaluates the quantized model on the validation set, by bit width, scheme and stage."""

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from scalecurve_api.features.quantization.facts import QuantizationFacts, QuantizedRow
from scalecurve_api.programs.accuracy import Quantization
from scalecurve_worker.features.quantization.calibration import calibrate, layers_of
from scalecurve_worker.features.quantization.folding import folded
from scalecurve_worker.features.quantization.integer_inference import Integers, Scheme, round_weights
from scalecurve_worker.torch.data import Batch

STEP_BYTES = 4  # a step is stored as a float32
NATIVE_BITS = 8


@dataclass(frozen=True)
class ValidationResult:
    """Share of right answers, mean cross entropy, and the logits (samples, classes) in float64 on the host."""

    accuracy: float
    loss: float
    logits: Tensor


def quantize(
    model: nn.Module, calibration: Sequence[Tensor], validation: Iterable[Batch], settings: Quantization
) -> QuantizationFacts:
    """Evaluate every bit width, scheme and stage of a trained model, which stays as it is.

    ``calibration`` are batches of inputs; ``validation`` is gone through once for each row, in one order. Bytes are
    those of the parameters: weights packed to their bits, biases of 4 bytes (32-bit integers at up to 8 bits, 64
    above), a float32 for each step.
    """
    graph = folded(model)
    calibrated = calibrate(graph, calibration)
    plain = score(graph, validation)
    rows = []
    for bits in settings.bits:
        for scheme in get_args(Scheme):
            for stage, forward, size in _stages(graph, calibrated.ranges, scheme, bits):
                rows.append(_row(scheme, stage, bits, score(forward, validation), plain, size))
    if NATIVE_BITS in settings.bits:
        for scheme in get_args(Scheme):
            if (int8 := native(model, calibration, scheme)) is not None:
                result = score(partial(_run_on_host, int8), validation)
                rows.append(_row(scheme, "torch", NATIVE_BITS, result, plain, _native_bytes(int8)))
    parameters = sum(parameter.numel() for parameter in graph.parameters())
    return QuantizationFacts(
        parameters=parameters,
        float_bytes=4 * parameters,
        float_accuracy=plain.accuracy,
        float_loss=plain.loss,
        rows=rows,
        histograms=calibrated.histograms,
    )


def native(model: nn.Module, calibration: Sequence[Tensor], scheme: Scheme) -> nn.Module | None:
    """Convert the model by torch.ao's defaults for this scheme of weights; None where torch was built without kernels.

    That is PyTorch's own post-training quantization at 8 bits (graph mode, on the CPU), for comparison.

    Weights are symmetric; activations have a zero-point and 128 places between the ends that calibration saw (one bit
    stays free, for CPUs that add up pairs of products in 16 bits), and so do the logits.
    """
    if not calibration or torch.backends.quantized.engine in ("", "none"):
        return None
    with warnings.catch_warnings():
        # It is to be replaced by torchao one day, and says so at every call.
        warnings.simplefilter("ignore")
        try:
            return _convert_model(copy.deepcopy(model).cpu().float().eval(), calibration, scheme)
        except (ImportError, NotImplementedError):
            return None


def _convert_model(model: nn.Module, calibration: Sequence[Tensor], scheme: Scheme) -> nn.Module:
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


def _run_on_host(module: nn.Module, inputs: Tensor) -> Tensor:
    logits: Tensor = module(inputs.cpu().contiguous())
    return logits


def _native_bytes(module: nn.Module) -> int:
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


def score(forward: Callable[[Tensor], Tensor], validation: Iterable[Batch]) -> ValidationResult:
    """Score what ``forward`` answers over the whole validation set."""
    logits, targets = [], []
    with torch.no_grad():
        for inputs, labels in validation:
            logits.append(forward(inputs.float()).double().cpu())
            targets.append(labels.cpu())
    answers, right = torch.cat(logits), torch.cat(targets)
    accuracy = float((answers.argmax(-1) == right).double().mean())
    return ValidationResult(accuracy, float(F.cross_entropy(answers, right)), answers)


def _stages(
    graph: fx.GraphModule, ranges: dict[str, tuple[float, float]], scheme: Scheme, bits: int
) -> Iterator[tuple[str, Callable[[Tensor], Tensor], int]]:
    layers = [graph.get_submodule(str(node.target)) for node in layers_of(graph)]
    # Each tensor's weights packed to the next whole byte, and its steps.
    weights = 0
    for weight in (layer.get_parameter("weight") for layer in layers):
        steps = weight.shape[0] if scheme == "channel" else 1
        weights += math.ceil(weight.numel() * bits / 8) + STEP_BYTES * steps
    biases = sum(layer.bias.numel() for layer in layers if isinstance(layer.bias, Tensor))
    yield "weights", round_weights(graph, scheme, bits), weights + 4 * biases
    for stage, whole_bias in (("activations", False), ("biases", True)):
        network = Integers(graph, ranges, scheme, bits, whole_bias=whole_bias)
        size = weights + STEP_BYTES * network.activation_grids + biases * (8 if whole_bias and bits > 8 else 4)
        yield stage, network.run, size


def _row(
    scheme: Scheme, stage: str, bits: int, result: ValidationResult, plain: ValidationResult, size: int
) -> QuantizedRow:
    scale = float(plain.logits.square().mean().sqrt())
    error = float((result.logits - plain.logits).square().mean().sqrt())
    place = {"scheme": scheme, "stage": stage, "bits": bits, "bytes": size}
    scores = {"accuracy": result.accuracy, "loss": result.loss, "error": error / scale if scale else error}
    return QuantizedRow.model_validate({**place, **scores})
