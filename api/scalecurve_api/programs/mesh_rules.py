"""Which layouts strategy mesh can run: degrees that divide the model's heads, layers, experts and sequence."""

from collections.abc import Iterator

from scalecurve_api.programs.model_catalog import MODELS, reads_tokens
from scalecurve_api.programs.parallelism import Degrees, Dimension, Parallelism
from scalecurve_api.programs.torch_options import TorchOptions
from scalecurve_api.programs.training import TrainingWorkload
from scalecurve_api.programs.transformer_shapes import TransformerShape, shape_of

_TRANSFORMERS_ONLY = (Dimension.tensor, Dimension.context, Dimension.expert)


def mesh_problems(
    workload: TrainingWorkload, options: TorchOptions, layout: Parallelism, workers: int
) -> Iterator[tuple[str, str]]:
    """Fields that this layout of the workload cannot have, and what is allowed."""
    degrees = layout.degrees(workers)
    if degrees is None:
        return  # said of the product
    yield from _options(workload, options, degrees)
    shape = shape_of(workload.model)
    if shape is None:
        yield from _not_a_transformer(workload, degrees)
        return
    yield from _divides(workload, shape, layout, degrees)


def sequence_length(workload: TrainingWorkload) -> int:
    """Tokens of one sequence of a language model."""
    data = workload.data
    if data.sequence_length is not None:
        return data.sequence_length
    return data.shape[0] if data.shape else MODELS.get(workload.model).shape[0]


def _options(workload: TrainingWorkload, options: TorchOptions, degrees: Degrees) -> Iterator[tuple[str, str]]:
    if workload.precision == "fp16":
        yield "precision", "fp32, tf32 or bf16 for strategy mesh"
    if options.channels_last:
        yield "options.channelsLast", "false for strategy mesh"
    if workload.transfer.checkpoint is not None:
        yield "transfer.checkpoint", "left out for strategy mesh: it starts from random parameters"
    if degrees.pipeline > 1 and options.gradient_accumulation > 1:
        yield "options.gradientAccumulation", "1 with a pipeline: parallelism.microBatches cuts up the batch"


def _not_a_transformer(workload: TrainingWorkload, degrees: Degrees) -> Iterator[tuple[str, str]]:
    what = "its sizes are not known" if reads_tokens(workload.model) else "only transformers have it"
    for dimension in _TRANSFORMERS_ONLY:
        if degrees.sizes[dimension] > 1:
            yield f"parallelism.{dimension.value}", f"1 for model {workload.model}: {what}"


def _divides(
    workload: TrainingWorkload, shape: TransformerShape, layout: Parallelism, degrees: Degrees
) -> Iterator[tuple[str, str]]:
    model, tensor, length = workload.model, degrees.tensor, sequence_length(workload)
    for number, name in (
        (shape.heads, "heads"),
        (shape.kv_heads, "key and value heads"),
        (shape.feed_forward, "columns of the feed-forward layer"),
    ):
        if number % tensor:
            yield "parallelism.tensor", f"a divisor of the {number} {name} of {model}"
            break
    if length % (tensor * degrees.context):
        parts = f"tensor {tensor} x context {degrees.context}"
        field = "parallelism.context" if degrees.context > 1 else "parallelism.tensor"
        yield field, f"degrees that divide the sequence of {length} tokens, which {parts} share"
    stages = degrees.pipeline * layout.stages_per_worker
    if degrees.pipeline > 1 and stages > shape.layers:
        each = f" in {layout.stages_per_worker} stages each" if layout.stages_per_worker > 1 else ""
        allowed = f"at most {shape.layers // layout.stages_per_worker}: {model} has {shape.layers} layers{each}"
        yield "parallelism.pipeline", allowed
    if shape.experts % degrees.expert:
        what = f"a divisor of its {shape.experts} experts" if shape.experts > 1 else "1: it has no experts"
        yield "parallelism.expert", f"{what} for model {model}"
    if shape.experts > 1:
        yield from _mixture(model, shape, degrees, length)


def _mixture(model: str, shape: TransformerShape, degrees: Degrees, length: int) -> Iterator[tuple[str, str]]:
    if degrees.tensor > 1:
        yield "parallelism.tensor", f"1 for model {model}: its experts are not split further"
    if degrees.expert > 1 and degrees.context > 1:
        yield "parallelism.expert", "1 with context above 1"
    if length // degrees.context * shape.active % shape.experts:
        part = "each part of the sequence" if degrees.context > 1 else "the sequence"
        yield "data.sequenceLength", f"a number of tokens with which {part} gives all {shape.experts} experts equally"
