"""Training to accuracy under torch: fresh parameters, real data, and what is done with the trained model."""

from itertools import islice

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scalecurve_api.features.noise_scale.facts import NoiseScaleRow
from scalecurve_api.features.quantization.facts import QUANTIZATION
from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.data import DataSource
from scalecurve_api.record.facts.dataset import DATASET
from scalecurve_worker.features.accuracy.evaluation import EpochResult, note_test_result, train_epochs
from scalecurve_worker.features.noise_scale.meter import NoiseMeter
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.programs import Measuring, extra
from scalecurve_worker.record.session import Facts
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch.data import Batch, Loader, dataset_facts
from scalecurve_worker.torch.job import TorchJob, split_batch
from scalecurve_worker.torch.models import cross_entropy
from scalecurve_worker.torch.parameters import write_checkpoint
from scalecurve_worker.torch.sharding import local_elements
from scalecurve_worker.torch.transfer import frozen_checksum, train_mode
from scalecurve_worker.training.checkpoints import open_folder


def check(job: TorchJob, model: nn.Module, goal: Accuracy) -> None:
    """Look before training at what would fail after it.

    Raises:
        WorkloadError: synthetic data, or a model that cannot be quantized and should be.
    """
    if job.workload.data.source is DataSource.synthetic:
        raise WorkloadError("measure.accuracy: needs real data, but workload.data.source is synthetic")
    if goal.quantization is not None:
        extra("check-quantizable")(model)


def train_to_accuracy(job: TorchJob, bench: Bench, data: Loader, goal: Accuracy) -> None:
    """Train from the trial's seed and evaluate after each epoch."""
    world, facts = bench.session.communicator, bench.session.facts
    if goal.checkpoints is not None and world.rank == 0:
        open_folder(goal.checkpoints)
    learner = TorchLearner(job, data)
    if goal.noise_scale:
        parts = job.workload.options.gradient_accumulation
        learner.meter = NoiseMeter(learner.trainer, job.batch, world, parts)
    if world.rank == 0:
        DATASET.put(facts, dataset_facts(data, learner.validation, job.workload.data.pictures))
    train_epochs(learner, bench, goal, job.workload.optimizer, job.trial.point.workers, job.workload.options.reshuffle)
    learner.validation.close()
    if job.has_test:
        learner.validation = job.data("test")
        note_test_result(bench, learner.validation.spec.items, learner.evaluate(0.0, 0.0))
        learner.validation.close()
    facts.frozen_checksums += frozen_checksum(learner.bare)
    if world.rank == 0:
        use_trained(learner.bare.eval(), job, facts, goal, data)
    world.barrier()


class TorchLearner:
    """A freshly built model with its data; see :class:`~scalecurve_worker.features.accuracy.evaluation.Learner`."""

    def __init__(self, job: TorchJob, data: Loader) -> None:
        self._job, self._data = job, data
        self.steps = len(data)
        self.trainer = job.trainer(job.wrap(job.build(data.spec)))
        self.trainer.watch = self._count
        wrapped = self.trainer.wrapped.module
        # Without DistributedDataParallel or DataParallel around it.
        self.bare: nn.Module = getattr(wrapped, "module", wrapped)
        self.meter: NoiseMeter | None = None
        self.validation = job.data("val")

    def batches(self, epoch: int) -> Loader:
        self._data.set_epoch(epoch)
        self._correct = torch.zeros((), dtype=torch.int64, device=self._job.device)
        self._counted = 0
        return self._data

    def _count(self, logits: Tensor, targets: Tensor) -> None:
        """Answers of the training's own forward passes, on the images and by the model that each step had."""
        self._correct += (logits.detach().argmax(-1) == targets).sum()
        self._counted += targets.numel()

    def update(self, batch: Batch) -> Tensor:
        return self.trainer.update(split_batch(batch, self._job.workload.options.gradient_accumulation))

    def set_rate(self, rate: float) -> None:
        for group in self.trainer.optimizer.param_groups:
            group["lr"] = rate

    def evaluate(self, train_loss: float, seconds: float) -> EpochResult:
        bare, remote = self.bare, self.trainer.wrapped.remote
        self.trainer.wrapped.settle()
        if remote is not None:
            remote.settle()
        if dist.is_initialized() and dist.get_world_size() > 1:
            # Batch norm's statistics are each rank's own; rank 0's model is judged, as a checkpoint would be.
            for buffer in bare.buffers():
                dist.broadcast(buffer, 0)
        bare.eval()
        # Not inference_mode: FSDP's gathered parameters must still be of use to the next step.
        with torch.no_grad():
            most = self._most_batches()
            answers = self._answers()
            for _ in range(most - len(self.validation)):
                with self.trainer.autocast():
                    bare(next(iter(self._data))[0])
        train_mode(bare)
        return EpochResult(*answers, int(self._correct), self._counted, train_loss, seconds)

    def _answers(self) -> tuple[int, int, float]:
        """Correct answers, answers and summed loss over this rank's share of the validation set."""
        job, counted = self._job, 0
        right = torch.zeros((), dtype=torch.int64, device=job.device)
        loss = torch.zeros((), dtype=torch.float64, device=job.device)
        for inputs, targets in self.validation:
            with self.trainer.autocast():
                logits: Tensor = self.bare(inputs)
                loss += cross_entropy(logits, targets).double() * targets.numel()
            right += (logits.argmax(-1) == targets).sum()
            counted += targets.numel()
        return int(right), counted, float(loss)

    def _most_batches(self) -> int:
        """Of any rank, where a forward pass gathers parameters: every rank then takes part in all; else 0."""
        if local_elements(self.bare) is None:
            return 0
        most = torch.tensor(len(self.validation), device=self._job.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return int(most)

    def noise_scale(self, epoch: int) -> NoiseScaleRow | None:
        return self.meter.row(epoch) if self.meter is not None else None


def use_trained(module: nn.Module, job: TorchJob, facts: Facts, goal: Accuracy, training: Loader) -> None:
    """Write the checkpoint and quantize the trained model (bare, in eval mode), as requested; on rank 0."""
    if goal.checkpoints is not None:
        path = write_checkpoint(module, open_folder(goal.checkpoints), job.trial.name)
        facts.options["trainedParameters"] = str(path)
    if goal.quantization is not None and all(parameter.isfinite().all() for parameter in module.parameters()):
        training.set_epoch(0)
        inputs = [batch for batch, _ in islice(training, goal.quantization.calibration_batches)]
        validation = job.data("val", alone=True)
        QUANTIZATION.put(facts, extra("quantize")(module, inputs, validation, goal.quantization))
        validation.close()


ACCURACY = Measuring(train_to_accuracy, check)
