"""``program: torch``: a model of the catalog trained on synthetic or real data, and timed."""

import copy
import os

import torch
from torch import nn

from scalecurve_api.contract import START_ENV
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.torch import TorchTraining, TorchWorkload
from scalecurve_api.programs.torch_options import CommHook, Recomputation, TrainingOptions
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError, out_of_memory
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.programs import measurements
from scalecurve_worker.record.session import Facts
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch import models
from scalecurve_worker.torch.alternates import NoSync, PeakMemory, Plain
from scalecurve_worker.torch.attach import attach_torch
from scalecurve_worker.torch.data import DataError, Loader
from scalecurve_worker.torch.device import choose_device, set_arithmetic, topologies_on
from scalecurve_worker.torch.explain.built_in import BuiltInExplainer
from scalecurve_worker.torch.explain.wrappers import count_parameters
from scalecurve_worker.torch.flops import FlopCountError, count_step_flops
from scalecurve_worker.torch.job import TorchJob, batch_per_worker, split_batch
from scalecurve_worker.torch.parameters import parameter_checksum
from scalecurve_worker.torch.process_group import ask_for_algorithm, choose_backend, join_group, leave_group
from scalecurve_worker.torch.sharding import local_elements
from scalecurve_worker.torch.strategies import RankStrategy, single
from scalecurve_worker.torch.training import Trainer
from scalecurve_worker.torch.transfer import frozen_checksum
from scalecurve_worker.torch.transports import transport_of


def run(trial: TrialSpec) -> None:
    """Train and time one trial on this rank."""
    workload = trial.workload_as(TorchWorkload)
    device = choose_device(workload.device, identify().local_rank)
    set_arithmetic(workload.precision, device, workload.options)
    strategy = workload.resolved_strategy
    if not strategy.one_worker and not strategy.one_process:
        # With parameter servers ranks only meet in the group: no gradient goes through it.
        backend = "gloo" if strategy.served else choose_backend(workload.backend, device)
        ask_for_algorithm(workload.all_reduce, backend)
        join_group(backend, device)
    carry_out(trial, workload, device)


def carry_out(
    trial: TrialSpec, workload: TorchTraining, device: torch.device, strategy: RankStrategy | None = None
) -> None:
    """Run this rank's share of a trial, and leave the group; by the workload's own strategy unless one is passed."""
    try:
        run_job(TorchJob(trial, workload, device, strategy))
    except models.ModelError as error:
        raise WorkloadError(f"workload.model: {error}") from error
    except DataError as error:
        raise WorkloadError(f"workload.data: {error}") from error
    except Exception as error:
        if workload.data.instances > 1 and out_of_memory(error):
            instances, batch = workload.data.instances, batch_per_worker(trial)
            raise MemoryError(
                f"workload.data.instances: {instances} of each of {batch} samples are {instances * batch} images a "
                f"step, which do not fit the memory of {device}: {error}"
            ) from error
        raise
    leave_group()


def run_job(job: TorchJob) -> RankRecord:
    """Time the training, then measure what else the trial asks for, and write the record."""
    data = job.data("train")
    bench, checksum = (job.strategy.measure or _measure)(job, data)
    for request, measuring in measurements(job.trial, "torch"):
        measuring.run(job, bench, data, request)
    data.close()
    job.close()
    return bench.finish(checksum)


def _measure(job: TorchJob, data: Loader) -> tuple[Bench, str]:
    model = job.build(data.spec)
    for request, measuring in measurements(job.trial, "torch"):
        measuring.check(job, model, request)
    flops = _count_flops(job, model, data)
    exposes = job.trial.measure.exposed_communication
    compares_plain = exposes and job.strategy.compares_plain and identify().world == 1
    twin = copy.deepcopy(model) if compares_plain else None
    trainer = job.trainer(job.wrap(model))
    memory = PeakMemory(job.device)
    alternate = _alternate(job, trainer, twin, memory)
    topologies = topologies_on(trainer.wrapped.gpus) if trainer.wrapped.gpus else None
    explainer = BuiltInExplainer(trainer, job.device, job.trial.measure, identify().world)
    bench = attach_torch(trainer.wrapped.module, alternate, topologies, explainer)
    facts = bench.session.facts
    _note(job, facts, trainer, data)
    job.note_flops(facts, flops)
    facts.frozen_checksums += frozen_checksum(model)
    if job.strategy.initial_checksum:
        facts.initial_checksum = parameter_checksum(trainer.wrapped.module)
    _train(job, bench, trainer, alternate, data)
    facts.peak_memory_bytes = memory.bytes()
    trainer.wrapped.settle()
    facts.frozen_checksums += frozen_checksum(model)
    facts.traffic = trainer.wrapped.traffic()
    facts.transport = transport_of(bench.session.communicator, facts.topology.device, facts.backend)
    return bench, parameter_checksum(trainer.wrapped.module)


def _alternate(job: TorchJob, trainer: Trainer, twin: nn.Module | None, memory: PeakMemory) -> NoSync | Plain | None:
    if twin is not None:
        return Plain(job.trainer(single(twin, job.device, job.workload)), memory)
    if job.trial.measure.exposed_communication and identify().world > 1 and trainer.wrapped.exposed:
        return NoSync(trainer, memory)
    return None


def _train(job: TorchJob, bench: Bench, trainer: Trainer, alternate: NoSync | Plain | None, data: Loader) -> None:
    batches = (split_batch(batch, job.workload.options.gradient_accumulation) for batch in data.endless())
    samples = job.batch * data.spec.samples_per_item
    if trainer.wrapped.remote is not None:
        trainer.wrapped.remote.train(bench, trainer.update, batches, samples)
        return
    # Synthetic batches are there already; waiting for others belongs to the timed windows' record.
    synthetic = data.spec.source == DataSource.synthetic.value
    waiting = bench.sections.section("input") if synthetic else bench.loading
    while bench.step(samples):
        turn = alternate if alternate is not None and bench.kind is alternate.kind else trainer
        with waiting:
            batch = next(batches)
        bench.loss(turn.update(batch))


def _note(job: TorchJob, facts: Facts, trainer: Trainer, data: Loader) -> None:
    options, wrapped = job.workload.options, trainer.wrapped
    facts.strategy = wrapped.wrapper
    facts.backend = wrapped.backend or facts.backend
    facts.versions.update(wrapped.versions)
    facts.parameters = count_parameters(wrapped.module)
    facts.shard_elements = local_elements(wrapped.module)
    facts.sample_unit = "tokens" if job.spec.kind == "tokens" else "samples"
    facts.options = {
        "device": str(job.device),
        "batchPerWorker": job.batch,
        "cudnnBenchmark": torch.backends.cudnn.benchmark,
        "optimizer": type(trainer.optimizer).__name__,
        "threads": torch.get_num_threads(),
        **({"sequenceLength": data.spec.shape[0]} if job.spec.kind == "tokens" else {}),
        **job.transfer,
        **options_to_record(options),
        **wrapped.options,
        **({"start": start} if (start := os.environ.get(START_ENV)) else {}),
        **({"optimizerFused": True} if trainer.optimizer.defaults.get("fused") else {}),
    }
    if (instances := job.workload.data.instances) > 1:
        # A sample counts once, however many of its copies a step has; so an epoch stays one pass over the set.
        facts.options["instances"] = instances
        facts.options["imagesPerWorker"] = instances * job.batch
    if norm := job.workload.batch_norm:
        facts.options["batchNorm"] = norm.value
    job.note_unexposed(facts, wrapped.unexposed)
    if data.spec.source != DataSource.synthetic.value:
        facts.options["datasetSamples"] = data.spec.samples


def _count_flops(job: TorchJob, model: nn.Module, data: Loader) -> tuple[float, float] | str:
    """Of one sample, the model's own and with what is recomputed; or why they could not be counted."""
    inputs, _ = next(iter(data))
    try:
        own = count_step_flops(model, inputs).total / data.spec.samples_per_step
        if job.workload.options.activation_checkpointing is Recomputation.none:
            return own, own
        return own, count_step_flops(model, inputs, recomputed=True).total / data.spec.samples_per_step
    except FlopCountError as error:
        return str(error)


def options_to_record(options: TrainingOptions) -> dict[str, object]:
    """Return the request's options, without what the hook ignores and what the strategy records itself."""
    ignored = {"keep_threads", "fsdp_group_mb", "shard", "cudnn_benchmark"}
    if options.comm_hook is not CommHook.powersgd:
        ignored.add("comm_hook_rank")
    if options.comm_hook is not CommHook.top_k:
        ignored.add("comm_hook_density")
    return options.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=ignored)
