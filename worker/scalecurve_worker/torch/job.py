"""One rank's share of a trial of the torch program: its model, its strategy and its data."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.torch import TorchTraining
from scalecurve_api.registry import RegistryError
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import identify
from scalecurve_worker.record.session import Facts
from scalecurve_worker.torch import models
from scalecurve_worker.torch.data import Batch, DataOptions, DataSpec, Loader, open_data
from scalecurve_worker.torch.flops import device_peak_flops
from scalecurve_worker.torch.recomputation import recomputed
from scalecurve_worker.torch.strategies import STRATEGIES, RankStrategy, RemoteParameters, WrappedModel
from scalecurve_worker.torch.training import Trainer
from scalecurve_worker.torch.transfer import begin, load_checkpoint, train_mode
from scalecurve_worker.training.checkpoints import FIELD
from scalecurve_worker.training.data.image_list import has_test
from scalecurve_worker.training.data.images import FolderSplit

TEACHER_FIELD = "workload.data.labels.pseudoLabels.teacher"


class TorchJob:
    """Makes what a trial of ``program: torch`` runs, or of a program that spreads the same models."""

    def __init__(
        self, trial: TrialSpec, workload: TorchTraining, device: torch.device, strategy: RankStrategy | None = None
    ) -> None:
        self.trial = trial
        self.workload = workload
        self.device = device
        self.spec = models.spec(workload.model)
        self.strategy = strategy or _strategy_of(workload)
        self.batch = batch_per_worker(trial)
        self.remotes: list[RemoteParameters] = []
        self.transfer: dict[str, object] = {}

    def build(self, data: DataSpec) -> nn.Module:
        """Build the model on its device, with parameters drawn from the trial's seed: the same on every rank."""
        torch.manual_seed(self.trial.seed)
        model = models.build(self.spec.name, classes=data.classes, input_shape=data.shape)
        self.transfer = begin(model, self.workload.transfer, self.spec, data.shape, data.classes)
        model = recomputed(model, self.workload.options.activation_checkpointing)
        model = train_mode(model.to(self.device))
        return model.to(memory_format=torch.channels_last) if self.workload.options.channels_last else model

    def wrap(self, model: nn.Module) -> WrappedModel:
        """Spread a model that :meth:`build` made over all workers."""
        wrapped = self.strategy.wrap(model, self.device, self.workload)
        if wrapped.remote is not None:
            self.remotes.append(wrapped.remote)
        return wrapped

    def trainer(self, wrapped: WrappedModel) -> Trainer:
        """Join the wrapped model with its loss and its optimizer, model and loss compiled with ``options.compile``.

        The loss of a language model, not compiled, costs a tenth of its step: GPT-2 small, one H200, 72 ms and not 65.
        """
        options = self.workload.options
        module: Any = torch.compile(wrapped.module) if options.compile else wrapped.module
        loss = torch.compile(models.training_loss) if options.compile else models.training_loss
        weighted = partial(loss, auxiliary_weight=self.spec.auxiliary_weight, smoothing=options.label_smoothing)
        return Trainer(wrapped, module, self.workload.precision, self.device, weighted)

    def data(self, split: FolderSplit, *, alone: bool = False) -> Loader:
        """Open the batches of this rank, or of the whole split where it is ``alone``.

        Synthetic ones take the model's own shape and classes where none are named.
        """
        data, (rank, world) = self.workload.data, self._reader()
        synthetic = data.source is DataSource.synthetic
        return open_data(
            data.source.value,
            # A process that drives every GPU feeds all of them.
            batch=self.batch * (self.trial.point.workers if self.workload.one_process else 1),
            path=data.path,
            shape=([data.sequence_length] if data.sequence_length else data.shape)
            or (self.spec.shape if synthetic or self.spec.kind == "tokens" else None),
            classes=data.classes or (self.spec.classes if synthetic or self.spec.kind == "tokens" else None),
            seed=self.trial.seed,
            rank=0 if alone else rank,
            world=1 if alone else world,
            split=split,
            device=self.device,
            options=DataOptions(
                kind=self.spec.kind,
                channels_last=self.workload.options.channels_last,
                augmentation=data.augmentation,
                rotation=data.rotation,
                shift=data.shift,
                zoom=data.zoom,
                cutout=data.cutout,
                instances=data.instances,
                validation=data.validation,
                split_seed=data.split_seed,
                column=data.column,
                loaders=data.loader_workers,
                labels=data.labels,
                teacher=self._teacher if data.labels.pseudo_labels is not None else None,
            ),
        )

    @torch.no_grad()
    def _teacher(self, unlabeled: Loader) -> torch.Tensor:
        """Class probabilities (items, classes) by the teacher's parameters: rank 0's, on every rank."""
        request = self.workload.data.labels.pseudo_labels
        assert request is not None
        spec = unlabeled.spec
        scores = torch.zeros((spec.items, spec.classes), device=self.device)
        if identify().rank == 0:
            model = models.build(self.spec.name, classes=spec.classes, input_shape=spec.shape)
            try:
                load_checkpoint(model, request.teacher, frozenset())
            except WorkloadError as error:
                raise WorkloadError(str(error).replace(FIELD, TEACHER_FIELD)) from error
            model = model.to(self.device).eval()
            scores = torch.cat([model(inputs).float().softmax(1) for inputs, _ in unlabeled])
        if dist.is_initialized():
            dist.broadcast(scores, 0)
        return scores.cpu()

    def _reader(self) -> tuple[int, int]:
        """Which of the readers of the data this rank is; those of a data-parallel group read the same."""
        identity, degrees = identify(), self.trial.point.parallelism
        return (identity.rank, identity.world) if degrees is None else (degrees.data_rank(identity.rank), degrees.data)

    @property
    def has_test(self) -> bool:
        """Whether there are images that neither train nor validate."""
        data = self.workload.data
        if data.source is not DataSource.image_folder or data.path is None:
            return False
        return has_test(Path(data.path).expanduser(), data.validation)

    def note_flops(self, facts: Facts, flops: tuple[float, float | None] | str) -> None:
        """Record the FLOPs of a sample, the model's own and with what is recomputed, or why they are not known."""
        if isinstance(flops, str):
            facts.options["flops"] = flops
        else:
            facts.flops_per_sample, facts.hardware_flops_per_sample = flops
        if self.device.type == "cuda":
            name = torch.cuda.get_device_name(self.device)
            facts.peak_flops = device_peak_flops(name, self.workload.precision.value)

    def note_unexposed(self, facts: Facts, reason: str | None) -> None:
        """Record why no step could be timed without its communication."""
        if reason and self.trial.measure.exposed_communication and self.trial.point.workers > 1:
            facts.options["exposedCommunication"] = f"not measured: {reason}"

    def close(self) -> None:
        for remote in self.remotes:
            remote.close()


def _strategy_of(workload: TorchTraining) -> RankStrategy:
    name = str(workload.resolved_strategy)
    try:
        return STRATEGIES.get(name)
    except RegistryError as error:
        raise WorkloadError(f"workload.strategy: {error}") from error


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Split into micro-batches of equal size, whose gradients add up before an update; ``parts`` divides the batch."""
    if parts == 1:
        return [batch]
    inputs, targets = batch
    return list(zip(inputs.chunk(parts), targets.chunk(parts), strict=True))


def batch_per_worker(trial: TrialSpec) -> int:
    """Return the samples that a worker takes in a step, alone or with the others of its data-parallel group."""
    degrees = trial.point.parallelism
    batch = trial.point.batch_per_worker if degrees is None else degrees.group_batch
    parts = trial.workload.gradient_accumulation
    if batch is None:
        raise WorkloadError("scaling.batch: program torch needs global (strong) or perWorker (weak)")
    if batch % parts:
        raise WorkloadError(
            f"workload.options.gradientAccumulation: {parts} does not divide the batch of a worker, {batch}"
        )
    return batch
