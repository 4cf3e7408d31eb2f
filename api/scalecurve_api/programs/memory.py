"""Memory of one worker in training, by what takes it: an estimate before anything runs.

State is counted exactly: fp32 parameters, gradients and optimizer state, divided as the strategy divides them.
Activations of transformers are the tensors that each layer's backward pass keeps (in the manner of V. Korthikanti et
al., arXiv:2205.05198, section 4, with fused attention); those of other models are not known. Without accumulation
gradients grow while activations go, so the larger of the two counts. Measured on an H200 (docs/evidence/h200), GPT-2
large, 8 x 1,024 tokens, bf16: 33.4 GiB under DDP and 19.7 GiB under FSDP on 4 GPUs; this gives 31.0 and 19.0.
"""

from dataclasses import dataclass

from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.programs.model_catalog import MODELS
from scalecurve_api.programs.torch import Division, TorchWorkload
from scalecurve_api.programs.torch_options import Recomputation
from scalecurve_api.programs.transformer_shapes import TransformerShape, shape_of
from scalecurve_api.programs.workload import Precision, Workload

FP32 = 4
GB = 1e9
MARGIN_BYTES, MARGIN_SHARE = 1.0e9, 0.05
"""The device's context and libraries, and what fragmentation leaves unused"""
_STATES = {"sgd": 1, "lars": 1, "adagrad": 1, "rmsprop": 1, "adam": 2, "adamw": 2, "adadelta": 2, "lamb": 2}
_LOSS = 3 * FP32
"""Bytes of each logit in fp32 at the start of the backward pass: log-softmax, its gradient, the gradient of logits"""


@dataclass(frozen=True)
class Memory:
    """Bytes of one worker; ``activations`` are None where they are not known, which makes the total a lower bound."""

    parameters: float
    gradients: float
    optimizer: float
    buffers: float
    activations: float | None
    accumulates: bool

    @property
    def total(self) -> float:
        """At the peak, without a margin."""
        moving = (self.gradients, self.activations or 0.0)
        return self.parameters + self.optimizer + self.buffers + (sum(moving) if self.accumulates else max(moving))

    @property
    def margin(self) -> float:
        return MARGIN_BYTES + MARGIN_SHARE * self.total

    @property
    def arithmetic(self) -> str:
        """The sum in GB."""
        known = f"{self.activations / GB:.1f}" if self.activations is not None else "not known"
        join = f"{self.gradients / GB:.1f} gradients and activations {known}"
        how = "both" if self.accumulates else "the larger of"
        return (
            f"{self.parameters / GB:.1f} parameters + {self.optimizer / GB:.1f} optimizer + {self.buffers / GB:.1f} "
            f"buffers + {how} {join} = {self.total / GB:.1f} GB"
        )


def memory_of(workload: Workload, degrees: Degrees | None, workers: int, batch: int | None) -> Memory | None:
    """The estimate for a worker that takes ``batch`` samples in a step, or its data-parallel group; None if unknown."""
    if not isinstance(workload, TorchWorkload) or workload.model not in MODELS.built_in or batch is None:
        return None
    shared = workload.resolved_strategy.division(workload, workers) if degrees is None else _division(degrees)
    if shared is None:
        return None
    shape, entry = shape_of(workload.model), MODELS.get(workload.model)
    vocabulary = workload.data.classes or entry.classes
    parameters = float(shape.parameters(vocabulary) if shape is not None else entry.parameters)
    states = 0 if workload.optimizer.name == "sgd" and not workload.optimizer.momentum else 1
    held = parameters - _elsewhere(shape, degrees)
    activations = None
    if shape is not None:
        activations = _activations(workload, shape, degrees, batch, vocabulary)
    return Memory(
        parameters=held * FP32 / shared.parameters,
        gradients=held * FP32 / shared.gradients,
        optimizer=states * _STATES[workload.optimizer.name] * held * FP32 / shared.optimizer,
        buffers=_buffers(workload, degrees, parameters, shape),
        activations=activations,
        accumulates=_parts(workload, degrees) > 1,
    )


def _elsewhere(shape: TransformerShape | None, degrees: Degrees | None) -> float:
    """Parameters of the experts that other workers hold, of a complete model."""
    if shape is None or degrees is None:
        return 0.0
    return shape.layers * shape.experts * shape.expert * (1 - 1 / degrees.expert)


def _division(degrees: Degrees) -> Division:
    cut = degrees.tensor * degrees.pipeline * degrees.shard * degrees.context
    return Division(cut, cut, cut)


def _parts(workload: TorchWorkload, degrees: Degrees | None) -> int:
    if degrees is not None and degrees.pipeline > 1:
        return degrees.micro_batches
    return workload.options.gradient_accumulation


def _buffers(
    workload: TorchWorkload, degrees: Degrees | None, parameters: float, shape: TransformerShape | None
) -> float:
    """DDP's buckets; autocast's copies of parameters; groups that FSDP has gathered, two of them and the root."""
    strategy, bf16 = workload.resolved_strategy, workload.precision is Precision.bf16
    sharded = strategy.gathers or (degrees is not None and degrees.data * degrees.context > 1)
    if not sharded:
        cut = degrees.tensor * degrees.pipeline if degrees is not None else 1
        copies = parameters * 2 / cut if bf16 else 0.0
        buckets = strategy.buckets and not workload.options.gradient_as_bucket_view
        return copies + (parameters * FP32 if buckets else 0.0)
    if shape is None:
        return 0.0
    whole = shape.attention + shape.norms + shape.experts * shape.expert
    root, block = parameters - shape.layers * whole, whole - _elsewhere(shape, degrees) / shape.layers
    cut = degrees.tensor if degrees is not None else 1
    return (2 * block + root) / cut * (2 if bf16 else FP32)


def _activations(
    workload: TorchWorkload, shape: TransformerShape, degrees: Degrees | None, batch: int, vocabulary: int
) -> float:
    """Of the fullest worker: a pipeline's first stage has as many micro-batches in flight as there are stages."""
    made = degrees or Degrees()
    parts = _parts(workload, degrees)
    tokens = workload.tokens_per_sample * batch / parts / made.context / made.tensor
    size = 2 if workload.precision is Precision.bf16 else FP32
    gathered = workload.resolved_strategy.gathers or made.data * made.context > 1
    residual = size if gathered else FP32
    keys = shape.kv_heads * shape.head_width
    attention = 3 * shape.width if shape.positions else shape.width + 2 * keys
    feed_forward = (4 if shape.gated else 2) * shape.feed_forward * shape.active
    layer = 2 * residual * shape.width + size * (3 * shape.width + attention + feed_forward)
    kept = {
        Recomputation.none: float(layer),
        Recomputation.selective: layer / 2,
        Recomputation.full: float(residual * shape.width),
    }[workload.options.activation_checkpointing]
    flying = 1
    if made.pipeline > 1 and workload.layout is not None:
        flying = workload.layout.live_micro_batches(made.pipeline, parts)
    layers = -(-shape.layers // made.pipeline)
    again = layer - kept
    return tokens * (layers * kept * flying + again + vocabulary * (size % FP32 + _LOSS))
