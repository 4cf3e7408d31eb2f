"""Evaluates the quantized model on the validation set, by bit width, scheme and stage."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from scalecurve_api.programs.accuracy import Quantization
from scalecurve_api.record.rank import QuantizationFacts, QuantizedRow
from scalecurve_worker.extras.quantization.calibration import calibrate, layers_of
from scalecurve_worker.extras.quantization.folding import folded
from scalecurve_worker.extras.quantization.integer_inference import Integers, Scheme, with_whole_weights
from scalecurve_worker.extras.quantization.torch_native import NATIVE_BITS, native
from scalecurve_worker.torch.data import Batch

STEP_BYTES = 4
"""A step is stored as a float32."""


@dataclass(frozen=True)
class ValidationResult:
    """Share of right answers, mean cross entropy, and the logits (samples, classes) in float64 on the host."""

    accuracy: float
    loss: float
    logits: Tensor


def quantize(
    model: nn.Module, calibration: Sequence[Tensor], validation: Iterable[Batch], settings: Quantization
) -> QuantizationFacts:
    """Every bit width, scheme and stage of a trained model, which stays as it is.

    ``calibration`` are batches of inputs; ``validation`` is gone through once for each row, in one order. Bytes are
    those of the parameters: weights packed to their bits, biases of 4 bytes (32-bit integers at up to 8 bits, 64
    above), a float32 for each step.
    """
    graph = folded(model)
    calibrated = calibrate(graph, calibration)
    plain = judge(graph, validation)
    rows = []
    for bits in settings.bits:
        for scheme in get_args(Scheme):
            for stage, forward, size in _stages(graph, calibrated.ranges, scheme, bits):
                rows.append(_row(scheme, stage, bits, judge(forward, validation), plain, size))
    if NATIVE_BITS in settings.bits:
        for scheme in get_args(Scheme):
            if (int8 := native(model, calibration, scheme)) is not None:
                rows.append(_row(scheme, "torch", NATIVE_BITS, judge(int8.forward, validation), plain, int8.bytes))
    parameters = sum(parameter.numel() for parameter in graph.parameters())
    return QuantizationFacts(
        parameters=parameters,
        float_bytes=4 * parameters,
        float_accuracy=plain.accuracy,
        float_loss=plain.loss,
        rows=rows,
        histograms=calibrated.histograms,
    )


def judge(forward: Callable[[Tensor], Tensor], validation: Iterable[Batch]) -> ValidationResult:
    """What ``forward`` answers over the whole validation set."""
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
    weights = _weight_bytes(graph, scheme, bits)
    biases = sum(module.bias.numel() for module in _modules(graph) if isinstance(module.bias, Tensor))
    yield "weights", with_whole_weights(graph, scheme, bits), weights + 4 * biases
    for stage, whole_bias in (("activations", False), ("biases", True)):
        network = Integers(graph, ranges, scheme, bits, whole_bias=whole_bias)
        size = weights + STEP_BYTES * network.activation_grids + biases * (8 if whole_bias and bits > 8 else 4)
        yield stage, network.run, size


def _weight_bytes(graph: fx.GraphModule, scheme: Scheme, bits: int) -> int:
    """Each tensor's weights packed to the next whole byte, and its steps."""
    total = 0
    for module in _modules(graph):
        weight = module.get_parameter("weight")
        total += math.ceil(weight.numel() * bits / 8)
        total += STEP_BYTES * (weight.shape[0] if scheme == "channel" else 1)
    return total


def _modules(graph: fx.GraphModule) -> list[nn.Module]:
    return [graph.get_submodule(str(node.target)) for node in layers_of(graph)]


def _row(
    scheme: Scheme, stage: str, bits: int, result: ValidationResult, plain: ValidationResult, size: int
) -> QuantizedRow:
    scale = float(plain.logits.square().mean().sqrt())
    error = float((result.logits - plain.logits).square().mean().sqrt())
    return QuantizedRow.model_validate(
        {
            "scheme": scheme,
            "stage": stage,
            "bits": bits,
            "accuracy": result.accuracy,
            "loss": result.loss,
            "bytes": size,
            "error": error / scale if scale else error,
        }
    )
