"""``program: torch``: a model of the catalog trained on synthetic or real data, and timed."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import nn

from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.legality import batch_norm_of, strategy_of
from scalecurve_api.programs.options import CommHook, Options
from scalecurve_api.programs.workload import Strategy, Workload
from scalecurve_api.record.checks.training import TCP
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.extras.parameter_server.training_loop import serve
from scalecurve_worker.extras.parameter_server.worker import ParameterServerClient
from scalecurve_worker.extras.quantization import check_quantizable
from scalecurve_worker.process.failure import WorkloadError, out_of_memory
from scalecurve_worker.process.identity import identify
from scalecurve_worker.record.session import Facts
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch import models
from scalecurve_worker.torch.accuracy import train_to_accuracy
from scalecurve_worker.torch.alternates import NoSync, Plain
from scalecurve_worker.torch.attach import attach_torch
from scalecurve_worker.torch.checksum import parameter_checksum
from scalecurve_worker.torch.data import Batch, DataError, DataOptions, DataSpec, Loader, Split, open_data
from scalecurve_worker.torch.device import choose_device, seats_on
from scalecurve_worker.torch.flops import FlopCountError, count_step_flops, device_peak_flops
from scalecurve_worker.torch.memory import PeakMemory
from scalecurve_worker.torch.precision import set_arithmetic
from scalecurve_worker.torch.process_group import ask_for_algorithm, choose_backend, join_group, leave_group
from scalecurve_worker.torch.sharding import local_elements
from scalecurve_worker.torch.strategies import STRATEGIES, Wrap, WrappedModel, single
from scalecurve_worker.torch.training import Trainer
from scalecurve_worker.torch.transfer import begin, note_frozen, train_mode


def run(trial: TrialSpec) -> None:
    """Train and time one trial on this rank.

    Raises:
        WorkloadError: what is asked for does not go on this machine or in this release.
    """
    workload = trial.workload
    device = choose_device(workload.device, identify().local_rank)
    set_arithmetic(workload.precision, device, workload.options.deterministic)
    strategy = strategy_of(workload)
    if strategy not in (Strategy.single, Strategy.dp):
        # With parameter servers ranks only meet in the group: no gradient goes through it.
        served = strategy is Strategy.parameter_server
        backend = "gloo" if served else choose_backend(workload.backend, device)
        ask_for_algorithm(workload.all_reduce, backend)
        join_group(backend, device)
    carry_out(trial, device)


def carry_out(trial: TrialSpec, device: torch.device, wrap: Wrap | None = None) -> None:
    """Run this rank's share of a trial, and leave the group; ``wrap`` spreads the model where no strategy does.

    Raises:
        WorkloadError: a model or data that cannot be had.
    """
    try:
        Job(trial, device, wrap).run()
    except models.ModelError as error:
        raise WorkloadError(f"workload.model: {error}") from error
    except DataError as error:
        raise WorkloadError(f"workload.data: {error}") from error
    except Exception as error:
        if trial.workload.data.instances > 1 and out_of_memory(error):
            raise _too_many(trial, device, error) from error
        raise
    leave_group()


class Job:
    """One rank's share of a trial of ``program: torch``, or of one whose own ``wrap`` spreads the same models."""

    def __init__(self, trial: TrialSpec, device: torch.device, wrap: Wrap | None = None) -> None:
        self.trial = trial
        self.workload: Workload = trial.workload
        self.device = device
        self.spec = models.spec(self.workload.model)
        self.strategy = strategy_of(self.workload) or Strategy.ddp
        self.wrap = wrap or STRATEGIES[self.strategy]
        self.batch = _batch_per_worker(trial)
        self.servings: list[ParameterServerClient] = []
        self.transfer: dict[str, object] = {}
        if trial.measure.accuracy and self.workload.data.source is DataSource.synthetic:
            raise WorkloadError("measure.accuracy: needs real data, and workload.data.source is synthetic")

    def run(self) -> RankRecord:
        """Time the training, then train to accuracy where that is asked for, and write the record."""
        data = self.data("train")
        bench, checksum = self._measure(data)
        if self.trial.measure.accuracy is not None:
            train_to_accuracy(self, bench, data, self.trial.measure.accuracy)
        data.close()
        for serving in self.servings:
            serving.close()
        return bench.finish(checksum)

    def build(self, data: DataSpec) -> nn.Module:
        """The model on its device, with parameters drawn from the trial's seed: the same on every rank."""
        torch.manual_seed(self.trial.seed)
        model = models.build(self.spec.name, classes=data.classes, input_shape=data.shape)
        self.transfer = begin(model, self.workload.transfer, self.spec, data.shape, data.classes)
        model = train_mode(model.to(self.device))
        return model.to(memory_format=torch.channels_last) if self.workload.options.channels_last else model

    def spread(self, model: nn.Module) -> WrappedModel:
        """The model as the strategy spreads it over workers."""
        spread = self.wrap(model, self.device, self.workload)
        if spread.serving is not None:
            self.servings.append(spread.serving)
        return spread

    def trainer(self, spread: WrappedModel) -> Trainer:
        """The spread model with its loss and its optimizer, both compiled where that is asked for.

        The loss of a language model, left as it is, costs a tenth of its step: GPT-2 small, one H200, 72 ms and not 65.
        """
        compiled = self.workload.options.compile
        return Trainer(
            spread,
            torch.compile(spread.module) if compiled else spread.module,
            self.workload.precision,
            self.device,
            self.spec.auxiliary_weight,
            self.workload.options.label_smoothing,
            torch.compile(models.training_loss) if compiled else models.training_loss,
        )

    def data(self, split: Split, *, alone: bool = False) -> Loader:
        """Batches of this rank, or the whole split where it is ``alone``.

        Synthetic ones take the model's own shape and classes where none are named.
        """
        asked, identity = self.workload.data, identify()
        synthetic = asked.source is DataSource.synthetic
        return open_data(
            asked.source.value,
            # Under DataParallel one process feeds every GPU.
            batch=self.batch * (self.trial.point.workers if self.strategy is Strategy.dp else 1),
            path=asked.path,
            shape=asked.shape or (self.spec.shape if synthetic else None),
            classes=asked.classes or (self.spec.classes if synthetic else None),
            seed=self.trial.seed,
            rank=0 if alone else identity.rank,
            world=1 if alone else identity.world,
            split=split,
            device=self.device,
            options=DataOptions(
                kind=self.spec.kind,
                channels_last=self.workload.options.channels_last,
                augmentation=asked.augmentation,
                cutout=asked.cutout,
                instances=asked.instances,
                validation=asked.validation,
                split_seed=asked.split_seed,
            ),
        )

    def micro_batches(self, batch: Batch) -> list[Batch]:
        """The parts of a batch whose gradients are added up before an update."""
        return split_batch(batch, self.workload.options.gradient_accumulation)

    def _measure(self, data: Loader) -> tuple[Bench, str]:
        model = self.build(data.spec)
        if self.trial.measure.accuracy is not None and self.trial.measure.accuracy.quantization is not None:
            check_quantizable(model)
        flops = self._count_flops(model, data)
        twin = copy.deepcopy(model) if self._compares_plain() else None
        trainer = self.trainer(self.spread(model))
        memory = PeakMemory(self.device)
        alternate = self._alternate(trainer, twin, memory)
        seats = seats_on(trainer.spread.seats) if trainer.spread.seats else None
        bench = attach_torch(trainer.spread.module, alternate, seats)
        facts = bench.session.facts
        self._note(facts, trainer, data)
        facts.flops_per_sample = flops if isinstance(flops, float) else None
        if isinstance(flops, str):
            facts.options["flops"] = flops
        note_frozen(facts.frozen_checksums, model)
        if self.strategy in (Strategy.fsdp, Strategy.dp, Strategy.parameter_server):
            facts.initial_checksum = parameter_checksum(trainer.spread.module)
        batches = (self.micro_batches(batch) for batch in data.endless())
        samples = self.batch * self._samples_per_item()
        if trainer.spread.serving is not None:
            facts.backend = TCP
            facts.servers = serve(bench, trainer, batches, samples)
            facts.pushes = trainer.spread.serving.optimizer.pushes
        else:
            _steps(bench, trainer, batches, samples, alternate)
        facts.peak_memory_bytes = memory.bytes()
        note_frozen(facts.frozen_checksums, model)
        facts.traffic = trainer.spread.traffic()
        return bench, parameter_checksum(trainer.spread.module)

    def _samples_per_item(self) -> int:
        shape = self.workload.data.shape or self.spec.shape
        return shape[0] if self.spec.kind == "tokens" else 1

    def _compares_plain(self) -> bool:
        return self.trial.measure.exposed_communication and self.strategy is Strategy.ddp and identify().world == 1

    def _alternate(self, trainer: Trainer, twin: nn.Module | None, memory: PeakMemory) -> NoSync | Plain | None:
        if twin is not None:
            return Plain(self.trainer(single(twin, self.device, self.workload)), memory)
        if self.trial.measure.exposed_communication and identify().world > 1 and trainer.spread.exposed:
            return NoSync(trainer, memory)
        return None

    def _note(self, facts: Facts, trainer: Trainer, data: Loader) -> None:
        """What the record says of the program."""
        options, spread = self.workload.options, trainer.spread
        facts.strategy = spread.wrapper
        facts.backend = spread.backend or facts.backend
        facts.versions.update(spread.versions)
        facts.parameters = sum(parameter.numel() for parameter in spread.module.parameters())
        facts.shard_elements = local_elements(spread.module)
        facts.sample_unit = "tokens" if self.spec.kind == "tokens" else "samples"
        facts.options = {
            "device": str(self.device),
            "batchPerWorker": self.batch,
            "cudnnBenchmark": torch.backends.cudnn.benchmark,
            "optimizer": type(trainer.optimizer).__name__,
            "threads": torch.get_num_threads(),
            **self.transfer,
            **_options(options),
            **spread.options,
            **({"optimizerFused": True} if trainer.optimizer.defaults.get("fused") else {}),
        }
        if (instances := self.workload.data.instances) > 1:
            # A sample counts once, however many of its copies a step has; so an epoch stays one pass over the set.
            facts.options["instances"] = instances
            facts.options["imagesPerWorker"] = instances * self.batch
        if norm := batch_norm_of(self.workload):
            facts.options["batchNorm"] = norm.value
        if spread.unexposed and self.trial.measure.exposed_communication and self.trial.point.workers > 1:
            facts.options["exposedCommunication"] = f"not measured: {spread.unexposed}"
        if data.spec.source != DataSource.synthetic.value:
            facts.options["datasetSamples"] = data.spec.samples
        if self.device.type == "cuda":
            name = torch.cuda.get_device_name(self.device)
            facts.peak_flops = device_peak_flops(name, self.workload.precision.value)

    def _count_flops(self, model: nn.Module, data: Loader) -> float | str:
        """FLOPs of a sample by one item, so that the batch does not matter; or why they could not be counted."""
        inputs, _ = next(iter(data))
        try:
            return count_step_flops(model, inputs).total / data.spec.samples_per_step
        except FlopCountError as error:
            return str(error)


def _steps(
    bench: Bench,
    trainer: Trainer,
    batches: Iterator[list[Batch]],
    samples: int,
    alternate: NoSync | Plain | None,
) -> None:
    while bench.step(samples):
        parts = next(batches)
        if alternate is not None and bench.kind is alternate.kind:
            bench.loss(alternate.update(parts))
        else:
            bench.loss(trainer.update(parts))


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Micro-batches of equal size; the batch divides by ``parts``."""
    if parts == 1:
        return [batch]
    inputs, targets = batch
    return list(zip(inputs.chunk(parts), targets.chunk(parts), strict=True))


def _options(options: Options) -> dict[str, object]:
    """As asked, without what the communication hook or the strategy has no use for."""
    wire = options.wire()
    if options.comm_hook is not CommHook.powersgd:
        del wire["commHookRank"]
    if options.comm_hook is not CommHook.top_k:
        del wire["commHookDensity"]
    for name in ("keepThreads", "fsdpGroupMb"):
        del wire[name]
    return wire


def _too_many(trial: TrialSpec, device: torch.device, error: Exception) -> MemoryError:
    instances, batch = trial.workload.data.instances, _batch_per_worker(trial)
    return MemoryError(
        f"workload.data.instances: {instances} of each of {batch} samples are {instances * batch} images a step, "
        f"which do not fit the memory of {device}: {error}"
    )


def _batch_per_worker(trial: TrialSpec) -> int:
    batch = trial.point.batch_per_worker
    parts = trial.workload.options.gradient_accumulation
    if batch is None:
        raise WorkloadError("scaling.batch: program torch needs global (strong) or perWorker (weak)")
    if batch % parts:
        raise WorkloadError(
            f"workload.options.gradientAccumulation: {parts}, which does not divide the batch of a worker, {batch}"
        )
    return batch
