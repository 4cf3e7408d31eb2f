"""One rank's share of a trial of the torch program: its model, its strategy and its data."""

import torch
from torch import nn

from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.horovod import TorchTraining
from scalecurve_api.programs.workload import Strategy
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import identify
from scalecurve_worker.torch import models
from scalecurve_worker.torch.data import Batch, DataOptions, DataSpec, Loader, Split, open_data
from scalecurve_worker.torch.strategies import RemoteParameters, Wrap, WrappedModel, wrap_of
from scalecurve_worker.torch.training import Trainer
from scalecurve_worker.torch.transfer import begin, train_mode


class TorchJob:
    """Makes what a trial of ``program: torch`` runs, or one whose own ``wrap`` spreads the same models."""

    def __init__(
        self, trial: TrialSpec, workload: TorchTraining, device: torch.device, wrap: Wrap | None = None
    ) -> None:
        self.trial = trial
        self.workload = workload
        self.device = device
        self.spec = models.spec(self.workload.model)
        self.strategy = self.workload.resolved_strategy or Strategy.ddp
        self.batch = batch_per_worker(trial)
        self.remotes: list[RemoteParameters] = []
        self.transfer: dict[str, object] = {}
        self._wrap = wrap or wrap_of(self.strategy)
        if trial.measure.accuracy and self.workload.data.source is DataSource.synthetic:
            raise WorkloadError("measure.accuracy: needs real data, but workload.data.source is synthetic")

    def build(self, data: DataSpec) -> nn.Module:
        """The model on its device, with parameters drawn from the trial's seed: the same on every rank."""
        torch.manual_seed(self.trial.seed)
        model = models.build(self.spec.name, classes=data.classes, input_shape=data.shape)
        self.transfer = begin(model, self.workload.transfer, self.spec, data.shape, data.classes)
        model = train_mode(model.to(self.device))
        return model.to(memory_format=torch.channels_last) if self.workload.options.channels_last else model

    def wrap(self, model: nn.Module) -> WrappedModel:
        wrapped = self._wrap(model, self.device, self.workload)
        if wrapped.remote is not None:
            self.remotes.append(wrapped.remote)
        return wrapped

    def trainer(self, wrapped: WrappedModel) -> Trainer:
        """The wrapped model with its loss and its optimizer, both compiled with ``options.compile``.

        The loss of a language model, not compiled, costs a tenth of its step: GPT-2 small, one H200, 72 ms and not 65.
        """
        compiled = self.workload.options.compile
        return Trainer(
            wrapped,
            torch.compile(wrapped.module) if compiled else wrapped.module,
            self.workload.precision,
            self.device,
            self.spec.auxiliary_weight,
            self.workload.options.label_smoothing,
            torch.compile(models.training_loss) if compiled else models.training_loss,
        )

    def data(self, split: Split, *, alone: bool = False) -> Loader:
        """Batches of this rank, or of the whole split where it is ``alone``.

        Synthetic ones take the model's own shape and classes where none are named.
        """
        data, identity = self.workload.data, identify()
        synthetic = data.source is DataSource.synthetic
        return open_data(
            data.source.value,
            # Under DataParallel one process feeds every GPU.
            batch=self.batch * (self.trial.point.workers if self.strategy is Strategy.dp else 1),
            path=data.path,
            shape=data.shape or (self.spec.shape if synthetic else None),
            classes=data.classes or (self.spec.classes if synthetic else None),
            seed=self.trial.seed,
            rank=0 if alone else identity.rank,
            world=1 if alone else identity.world,
            split=split,
            device=self.device,
            options=DataOptions(
                kind=self.spec.kind,
                channels_last=self.workload.options.channels_last,
                augmentation=data.augmentation,
                cutout=data.cutout,
                instances=data.instances,
                validation=data.validation,
                split_seed=data.split_seed,
            ),
        )

    def micro_batches(self, batch: Batch) -> list[Batch]:
        """The parts of a batch whose gradients are added up before an update."""
        return split_batch(batch, self.workload.options.gradient_accumulation)

    def close(self) -> None:
        for remote in self.remotes:
            remote.close()


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Micro-batches of equal size; the batch divides by ``parts``."""
    if parts == 1:
        return [batch]
    inputs, targets = batch
    return list(zip(inputs.chunk(parts), targets.chunk(parts), strict=True))


def batch_per_worker(trial: TrialSpec) -> int:
    """Samples that a worker takes in a step."""
    batch = trial.point.batch_per_worker
    parts = trial.workload.gradient_accumulation
    if batch is None:
        raise WorkloadError("scaling.batch: program torch needs global (strong) or perWorker (weak)")
    if batch % parts:
        raise WorkloadError(
            f"workload.options.gradientAccumulation: {parts} does not divide the batch of a worker, {batch}"
        )
    return batch
