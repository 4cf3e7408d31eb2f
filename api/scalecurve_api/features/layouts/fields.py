"""Which layouts strategy mesh can run: degrees that divide the model's heads, layers, experts and sequence."""

from collections.abc import Iterator

from scalecurve_api.problem import Problem, Violation, expected, forbidden, unsupported
from scalecurve_api.programs.degrees import Degrees, Dimension
from scalecurve_api.programs.model_catalog import reads_tokens
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_api.programs.torch import TorchStrategy, TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode
from scalecurve_api.programs.training import TrainingWorkload
from scalecurve_api.programs.transformer_shapes import TransformerShape, shape_of

_TRANSFORMERS_ONLY = (Dimension.tensor, Dimension.context, Dimension.expert)


class _Mesh(TorchStrategy):
    def problems(self, workload: TorchWorkload, workers: int) -> Iterator[Problem]:
        layout = workload.layout
        degrees = layout.degrees(workers) if layout is not None else None
        if layout is None or degrees is None:
            return  # reported for the product
        shape = shape_of(workload.model)
        yield from (workload.problem(field, violation) for field, violation in _options(workload, degrees))
        found = _divides(workload, shape, layout, degrees) if shape else _not_a_transformer(workload, degrees)
        yield from (workload.problem(field, violation) for field, violation in found)


MESH = _Mesh(
    name="mesh",
    wrapper="DeviceMesh",
    batch_norm=(BatchNormMode.local,),
    splits_layers=True,
    only_timed="strategy mesh is only timed",
    lays_out=True,
)


def _options(workload: TorchWorkload, degrees: Degrees) -> Iterator[tuple[str, Violation]]:
    options = workload.options
    if workload.precision == "fp16":
        yield "precision", unsupported("with strategy mesh", "fp32, tf32 or bf16")
    if options.channels_last:
        yield "options.channelsLast", unsupported("with strategy mesh", "false")
    if workload.transfer.checkpoint is not None:
        yield "transfer.checkpoint", forbidden("strategy mesh starts from random parameters")
    if degrees.pipeline > 1 and options.gradient_accumulation > 1:
        reason = "with a pipeline, where parallelism.microBatches divides the batch"
        yield "options.gradientAccumulation", unsupported(reason, "1")


def _not_a_transformer(workload: TrainingWorkload, degrees: Degrees) -> Iterator[tuple[str, Violation]]:
    what = "whose sizes are unknown" if reads_tokens(workload.model) else "which is no transformer"
    for dimension in _TRANSFORMERS_ONLY:
        if degrees.sizes[dimension] > 1:
            yield f"parallelism.{dimension.value}", unsupported(f"with model {workload.model}, {what}", "1")


def _divides(
    workload: TrainingWorkload, shape: TransformerShape, layout: Parallelism, degrees: Degrees
) -> Iterator[tuple[str, Violation]]:
    model, tensor, length = workload.model, degrees.tensor, workload.tokens_per_sample
    for number, name in (
        (shape.heads, "heads"),
        (shape.kv_heads, "key and value heads"),
        (shape.feed_forward, "columns of the feed-forward layer"),
    ):
        if number % tensor:
            yield "parallelism.tensor", expected(f"a divisor of {number}, the {name} of {model}")
            break
    if length % (tensor * degrees.context):
        parts = f"tensor {tensor} x context {degrees.context}"
        field = "parallelism.context" if degrees.context > 1 else "parallelism.tensor"
        yield field, expected(f"degrees that divide the sequence of {length} tokens, which {parts} share")
    stages = degrees.pipeline * layout.stages_per_worker
    if degrees.pipeline > 1 and stages > shape.layers:
        each = f" and a worker {layout.stages_per_worker} stages" if layout.stages_per_worker > 1 else ""
        most = f"at most {shape.layers // layout.stages_per_worker}, since {model} has {shape.layers} layers{each}"
        yield "parallelism.pipeline", expected(most)
    if shape.experts % degrees.expert:
        divisor = expected(f"a divisor of {shape.experts}, the experts of {model}")
        none = unsupported(f"with model {model}, which has no experts", "1")
        yield "parallelism.expert", divisor if shape.experts > 1 else none
    if shape.experts > 1:
        yield from _mixture(model, shape, degrees, length)


def _mixture(model: str, shape: TransformerShape, degrees: Degrees, length: int) -> Iterator[tuple[str, Violation]]:
    if degrees.tensor > 1:
        yield "parallelism.tensor", unsupported(f"with model {model}, whose experts are not split further", "1")
    if degrees.expert > 1 and degrees.context > 1:
        yield "parallelism.expert", unsupported("with context above 1", "1")
    if length // degrees.context * shape.active % shape.experts:
        part = "each part of the sequence" if degrees.context > 1 else "the sequence"
        equal = f"a length with which {part} gives each of the {shape.experts} experts the same number of tokens"
        yield "data.sequenceLength", expected(equal)
