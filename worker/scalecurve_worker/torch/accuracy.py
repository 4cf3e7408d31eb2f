"""Training to accuracy under torch: fresh parameters, real data, and what is done with the trained model."""

from itertools import islice

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.workload import Precision
from scalecurve_api.record.rank import NoiseScaleRow
from scalecurve_worker.process.programs import extra
from scalecurve_worker.record.session import Facts
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch.checkpoints import open_folder, write_checkpoint
from scalecurve_worker.torch.data import Batch, Loader, dataset_facts
from scalecurve_worker.torch.device import autocast
from scalecurve_worker.torch.job import TorchJob
from scalecurve_worker.torch.models import cross_entropy
from scalecurve_worker.torch.noise_meter import NoiseMeter
from scalecurve_worker.torch.sharding import local_elements
from scalecurve_worker.torch.transfer import note_frozen, train_mode
from scalecurve_worker.training.accuracy import EpochResult, train_epochs


def evaluate(
    module: nn.Module, validation: Loader, precision: Precision, device: torch.device, training: Loader
) -> tuple[int, int, float]:
    """Correct answers, answers and summed loss over this rank's share of the validation set. Collective.

    A batch of ``training`` keeps ranks in step that have fewer batches than others.
    """
    bare = bare_module(module)
    if dist.is_initialized() and dist.get_world_size() > 1:
        # Batch norm's statistics are each rank's own; the model that is judged is rank 0's, as a checkpoint would be.
        for buffer in bare.buffers():
            dist.broadcast(buffer, 0)
    right = torch.zeros((), dtype=torch.int64, device=device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    counted = 0
    bare.eval()
    # Not inference_mode: FSDP's gathered parameters must still be of use to the next step.
    with torch.no_grad():
        for inputs, targets in validation:
            with autocast(precision, device):
                logits: Tensor = bare(inputs)
                loss += cross_entropy(logits, targets).double() * targets.numel()
            right += (logits.argmax(-1) == targets).sum()
            counted += targets.numel()
        if local_elements(bare) is not None:
            _keep_up(bare, validation, precision, device, training)
    train_mode(bare)
    return int(right), counted, float(loss)


def bare_module(module: nn.Module) -> nn.Module:
    """The model itself, without DistributedDataParallel or DataParallel around it."""
    bare = getattr(module, "module", module)
    assert isinstance(bare, nn.Module)
    return bare


def _keep_up(
    module: nn.Module, validation: Loader, precision: Precision, device: torch.device, training: Loader
) -> None:
    """A forward pass that gathers parameters is a collective: go on until the rank with most batches has ended."""
    most = torch.tensor(len(validation), device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    inputs, _ = next(iter(training))
    for _ in range(int(most) - len(validation)):
        with autocast(precision, device):
            module(inputs)


def train_to_accuracy(job: TorchJob, bench: Bench, data: Loader, goal: Accuracy) -> None:
    """Train from the trial's seed and evaluate after each epoch, until the target or the last epoch."""
    world, facts = bench.session.communicator, bench.session.facts
    if goal.checkpoints is not None and world.rank == 0:
        open_folder(goal.checkpoints)
    learner = TorchLearner(job, data)
    if goal.noise_scale:
        parts = job.workload.options.gradient_accumulation
        learner.meter = NoiseMeter(learner.trainer, job.batch, world, parts)
    if world.rank == 0:
        facts.dataset = dataset_facts(data, learner.validation)
    workload = job.workload
    train_epochs(learner, bench, goal, workload.optimizer, job.trial.point.workers, workload.options.reshuffle)
    learner.validation.close()
    bare = bare_module(learner.trainer.wrapped.module)
    note_frozen(facts.frozen_checksums, bare)
    if world.rank == 0 and (goal.checkpoints is not None or goal.quantization is not None):
        validation = job.data("val", alone=True)
        use_trained(bare.eval(), job.trial.name, facts, goal, data, validation)
        validation.close()
    world.barrier()


class TorchLearner:
    """A freshly built model with its data; see :class:`~scalecurve_worker.training.accuracy.Learner`."""

    def __init__(self, job: TorchJob, data: Loader) -> None:
        self._job, self._data = job, data
        self.steps = len(data)
        self.trainer = job.trainer(job.wrap(job.build(data.spec)))
        self.trainer.watch = self._tally = Tally(job.device)
        self.meter: NoiseMeter | None = None
        self.validation = job.data("val")

    def batches(self, epoch: int) -> Loader:
        self._data.set_epoch(epoch)
        self._tally.clear()
        return self._data

    def update(self, batch: Batch) -> Tensor:
        return self.trainer.update(self._job.micro_batches(batch))

    def set_rate(self, rate: float) -> None:
        for group in self.trainer.optimizer.param_groups:
            group["lr"] = rate

    def evaluate(self, train_loss: float, seconds: float) -> EpochResult:
        wrapped, job = self.trainer.wrapped, self._job
        if wrapped.remote is not None:
            wrapped.remote.settle()
        correct, counted = self._tally.counts()
        answers = evaluate(wrapped.module, self.validation, job.workload.precision, job.device, self._data)
        return EpochResult(*answers, correct, counted, train_loss, seconds)

    def noise_scale(self, epoch: int) -> NoiseScaleRow | None:
        return self.meter.row(epoch) if self.meter is not None else None


class Tally:
    """Correct answers of the training's own forward passes, on the images and by the model that each step had."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        self._correct = torch.zeros((), dtype=torch.int64, device=self._device)
        self._counted = 0

    def __call__(self, logits: Tensor, targets: Tensor) -> None:
        self._correct += (logits.detach().argmax(-1) == targets).sum()
        self._counted += targets.numel()

    def counts(self) -> tuple[int, int]:
        return int(self._correct), self._counted


def use_trained(
    module: nn.Module, trial: str, facts: Facts, goal: Accuracy, training: Loader, validation: Loader
) -> None:
    """Write the checkpoint and quantize the trained model, as ``measure.accuracy`` requests; on rank 0.

    ``module`` is the bare model on its device, in eval mode; ``validation`` is the whole validation set.
    """
    if goal.checkpoints is not None:
        path = write_checkpoint(module, open_folder(goal.checkpoints), trial)
        facts.options["trainedParameters"] = str(path)
    finite = all(parameter.isfinite().all() for parameter in module.parameters())
    if goal.quantization is not None and finite:
        training.set_epoch(0)
        inputs = [batch for batch, _ in islice(training, goal.quantization.calibration_batches)]
        facts.quantization = extra("quantize")(module, inputs, validation, goal.quantization)
