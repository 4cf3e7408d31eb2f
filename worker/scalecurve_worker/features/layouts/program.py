"""Strategy ``mesh`` of program torch: builds the layout, compares it with one process, then times it."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from scalecurve_api.features.layouts.facts import AXIS_TRAFFIC, EQUALITY, LAYOUT, PIPELINE, AxisTraffic, Equality
from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.torch_options import Recomputation
from scalecurve_api.record.rank import Traffic
from scalecurve_worker.features.layouts.equality import compare
from scalecurve_worker.features.layouts.layout import LaidOut
from scalecurve_worker.features.layouts.meshes import Meshes, make_meshes
from scalecurve_worker.features.layouts.observed_traffic import ObservedTraffic
from scalecurve_worker.features.layouts.pipeline_times import observe_pipeline
from scalecurve_worker.features.layouts.reference import Reference, check_batches, one_process
from scalecurve_worker.features.layouts.tensor import separate
from scalecurve_worker.features.layouts.updates import LayoutTrainer, Loss, group_parameters
from scalecurve_worker.process.failure import WorkloadError, out_of_memory
from scalecurve_worker.process.identity import identify
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.sdk.observation import tensor_bytes
from scalecurve_worker.torch import models
from scalecurve_worker.torch.alternates import PeakMemory
from scalecurve_worker.torch.attach import attach_torch
from scalecurve_worker.torch.data import Batch, Loader
from scalecurve_worker.torch.explain.built_in import TracingExplainer
from scalecurve_worker.torch.flops import FlopCountError, count_step_flops
from scalecurve_worker.torch.job import TorchJob, split_batch
from scalecurve_worker.torch.optimizers import rule_of
from scalecurve_worker.torch.strategies import RankStrategy


def _refuse_to_wrap(*_: Any) -> Any:
    raise TypeError("strategy mesh wraps no model: it cuts it into stages")


def measure(job: TorchJob, data: Loader) -> tuple[Bench, str]:
    """Time the training of a model that is cut into stages; see ``RankStrategy.measure``.

    Raises:
        WorkloadError: the degrees of the point are not those of its workers.
    """
    workload, trial, device, degrees = job.workload, job.trial, job.device, job.trial.point.parallelism
    if degrees is None or degrees.workers != identify().world:
        raise WorkloadError("workload.parallelism: the degrees do not give the number of workers")
    assert isinstance(workload, TorchWorkload)
    meshes, layout = make_meshes(degrees, device), workload.layout or Parallelism()
    parts = degrees.micro_batches if degrees.pipeline > 1 else workload.options.gradient_accumulation
    checkpointing = workload.options.activation_checkpointing
    # Stages wrap their own blocks; a reference needs none of it.
    plain = workload.options.model_copy(update={"activation_checkpointing": Recomputation.none})
    job.workload = workload.model_copy(update={"options": plain})
    model = job.build(data.spec)
    separate(model)
    flops = _count_flops(model, data, checkpointing)
    parameters = sum(each.numel() for each in model.parameters())
    loss = partial(
        models.training_loss,
        auxiliary_weight=job.spec.auxiliary_weight,
        smoothing=workload.options.label_smoothing,
    )
    tokens = job.spec.kind == "tokens"
    sample = check_batches(degrees, parts, data.spec.shape, data.spec.classes, tokens, trial.seed)
    reference = _reference(model, job, sample, meshes, parts, loss)
    laid = LaidOut(model, meshes, workload, data.spec.shape[0] if tokens else 1)
    del model
    trainer = LayoutTrainer(laid, workload.precision, device, loss, layout.schedule)
    compared: Equality | str = (
        compare(trainer, reference, sample, parts, workload.precision, device)
        if isinstance(reference, Reference)
        else reference
    )
    kind, arguments = rule_of(workload.optimizer, degrees.data, device.type)
    optimizer = kind([{"params": group} for group in group_parameters(laid.module)], **arguments)
    batches = data.endless()
    traffic = _observe(trainer, split_batch(next(batches), parts))
    memory = PeakMemory(device)
    bench = attach_torch(laid.module, explainer=TracingExplainer(device, trial.measure))
    _note(job, bench, laid, compared, traffic, parts)
    facts = bench.session.facts
    facts.parameters = parameters
    facts.sample_unit = "tokens" if tokens else "samples"
    job.note_flops(facts, flops)
    facts.initial_checksum = checksum(laid)
    samples = job.batch * data.spec.samples_per_item
    while bench.step(samples):
        value = trainer.update(optimizer, split_batch(next(batches), parts))
        if value is not None:
            bench.loss(value)
    facts.peak_memory_bytes = memory.bytes()
    PIPELINE.put(facts, observe_pipeline(trainer, layout, split_batch(next(batches), parts), device))
    return bench, checksum(laid)


def _reference(
    model: torch.nn.Module, job: TorchJob, sample: Any, meshes: Meshes, parts: int, loss: Loss
) -> Reference | str:
    """What one process computes, or why that is not known: equal on every rank."""
    reference: Reference | str
    try:
        reference = one_process(model, sample, meshes.degrees, parts, loss, job.workload.precision, job.device)
    except Exception as error:
        if not out_of_memory(error):
            raise
        reference = "one process does not have the memory to train this model"
    failed = torch.tensor([float(isinstance(reference, str))], device=job.device)
    dist.all_reduce(failed)
    return "one process does not have the memory to train this model" if failed.item() else reference


def _observe(trainer: LayoutTrainer, batches: Sequence[Batch]) -> list[AxisTraffic]:
    """What a step hands to collectives: of a batch as they are timed, but without an update."""
    observed = ObservedTraffic(trainer.laid.meshes.names())
    trainer.update(None, batches)  # in the first, stages of a pipeline tell each other what they will send
    with observed, torch.compiler.set_stance("force_eager"):  # what is compiled hides its collectives
        trainer.update(None, batches)
    for parameter in trainer.laid.module.parameters():
        parameter.grad = None
    return observed.rows()


def _note(
    job: TorchJob, bench: Bench, laid: LaidOut, compared: Equality | str, traffic: list[AxisTraffic], parts: int
) -> None:
    facts, workload, degrees = bench.session.facts, job.workload, laid.meshes.degrees
    facts.strategy = type(laid.meshes.dense).__name__
    LAYOUT.put(facts, degrees)
    facts.shard_elements = laid.own_elements()
    facts.options = {
        "device": str(job.device),
        "batchPerGroup": job.batch,
        "microBatches": parts,
        "optimizer": workload.optimizer.name,
        "threads": torch.get_num_threads(),
        "stages": laid.indices,
        "place": {dimension.value: index for dimension, index in laid.meshes.place.items()},
    }
    job.note_unexposed(facts, "communication is a part of the forward pass: there is no step without it")
    if isinstance(compared, str):
        facts.options["equality"] = compared
    else:
        EQUALITY.put(facts, compared)
    AXIS_TRAFFIC.put(facts, traffic)
    facts.traffic = Traffic(
        payload_bytes=sum(row.payload_bytes for row in traffic),
        wire_bytes=sum(row.wire_bytes for row in traffic),
        plain_payload_bytes=sum(each.numel() for _, each in laid.counted()) * 4,
        how="observed in one step before the timed windows, by dimension in axisTraffic",
    )


def _count_flops(model: torch.nn.Module, data: Loader, mode: Recomputation) -> tuple[float, float | None] | str:
    """Of one sample or token of the complete model; what is recomputed is not counted here."""
    inputs, _ = next(iter(data))
    try:
        own = count_step_flops(model, inputs).total / data.spec.samples_per_step
    except FlopCountError as error:
        return str(error)
    return own, own if mode is Recomputation.none else None


def checksum(laid: LaidOut) -> str:
    """Digest all parameters by name, from every stage: equal on every rank whose copies are equal. Collective."""
    own = {}
    for name, parameter in laid.counted():
        tensor = laid.whole(name, parameter.detach())
        about = f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode()
        own[name] = hashlib.blake2b(about + tensor_bytes(tensor), digest_size=16).digest()
    stages: list[Any] = [None] * laid.meshes.degrees.pipeline
    dist.all_gather_object(stages, own, group=laid.meshes.group(Dimension.pipeline))
    merged = {name: digest for stage in stages for name, digest in stage.items()}
    return hashlib.blake2b(b"".join(merged[name] for name in sorted(merged)), digest_size=16).hexdigest()


MESH = RankStrategy(_refuse_to_wrap, measure)
