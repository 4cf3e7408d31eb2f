"""One process's part of a trial of the TensorFlow program: its replicas, its model and its data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from scalecurve_api.features.tensorflow.fields import TensorFlowWorkload
from scalecurve_api.programs.data import Augmentation, DataSource, TrainingData
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.record.facts.dataset import DatasetFacts
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.tensorflow import models
from scalecurve_worker.features.tensorflow.data.arrays import ArrayEpochs
from scalecurve_worker.features.tensorflow.data.image_folder import ImageFolderEpochs
from scalecurve_worker.features.tensorflow.data.sampler import Epochs, ReplicaShard
from scalecurve_worker.features.tensorflow.data.synthetic import SyntheticReplicas
from scalecurve_worker.features.tensorflow.devices import Devices
from scalecurve_worker.features.tensorflow.strategies import ReplicaStrategy
from scalecurve_worker.features.tensorflow.training import ReplicaTrainer
from scalecurve_worker.features.tensorflow.transfer import begin
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.training.data.augmentation import augment_for
from scalecurve_worker.training.data.decoding import TrainingDecoder, open_image_list
from scalecurve_worker.training.data.image_list import ImageList
from scalecurve_worker.training.data.images import FolderSplit, ImageArrays, check_arrays, existing_folder
from scalecurve_worker.training.data.small_sets import read_images

IMAGENET_SHAPE = (3, 224, 224)


@dataclass(frozen=True)
class TensorFlowConfig:
    """``shape`` is (channels, height, width), ``batch`` that of one worker."""

    model: str
    shape: tuple[int, ...]
    classes: int
    batch: int
    source: str = "synthetic"
    arrays: ImageArrays | None = None
    images: ImageList | None = None
    folder: Path = Path()

    @classmethod
    def of(cls, trial: TrialSpec) -> Self:
        """Read a trial; what it leaves open is the model's own."""
        data, batch = trial.workload_as(TensorFlowWorkload).data, trial.point.batch_per_worker
        path = Path(data.path).expanduser() if data.path else None
        spec = models.spec(trial.workload.model)
        if batch is None:
            raise WorkloadError("scaling.batch: program tensorflow needs global (strong) or perWorker (weak)")
        if data.source is DataSource.synthetic:
            return cls(spec.name, tuple(data.shape or spec.shape), data.classes or spec.classes, batch)
        if data.source is DataSource.image_folder:
            shape = tuple(data.shape or IMAGENET_SHAPE)
            images = open_split(data, "train", shape, data.classes)
            classes = data.classes or images.classes
            return cls(spec.name, shape, classes, batch, data.source.value, images=images, folder=path or Path())
        arrays = read_images(data.source.value, path, "train")
        shape = tuple(data.shape or arrays.images.shape[1:])
        classes = data.classes or arrays.classes
        check_arrays(data.source.value, arrays, shape=shape, classes=classes)
        return cls(spec.name, shape, classes, batch, data.source.value, arrays, folder=path or Path())

    def build(self) -> Any:
        """Build the model with freshly drawn parameters."""
        return models.build(self.model, classes=self.classes, input_shape=self.shape)

    def dataset_facts(self, validation: int) -> DatasetFacts:
        """Count the items of both splits; ``validation`` is the number of images held out."""
        split = self.images or self.arrays
        if split is None:
            raise ValueError("random batches are no data set")
        names = split.class_names if isinstance(split, ImageList) else split.names
        counts = np.bincount(split.labels, minlength=len(names)).tolist()
        return DatasetFacts(train=len(split.labels), val=validation, class_counts=counts, class_names=list(names))


def open_split(data: TrainingData, split: FolderSplit, shape: tuple[int, ...], classes: int | None) -> ImageList:
    """List a split of an image folder."""
    return open_image_list(
        existing_folder(data.source.value, Path(data.path).expanduser() if data.path else None),
        split,
        shape=shape,
        classes=classes,
        validation=data.validation,
        split_seed=data.split_seed,
    )


@dataclass(frozen=True)
class TensorFlowJob:
    """A trial with one replica in this process, or several."""

    trial: TrialSpec
    identity: RankIdentity
    devices: Devices
    replication: ReplicaStrategy
    communicator: Communicator
    config: TensorFlowConfig
    transfer: dict[str, object] = field(default_factory=dict)
    """What the record says of the parameters that training began with."""

    @property
    def workload(self) -> TensorFlowWorkload:
        return self.trial.workload_as(TensorFlowWorkload)

    def build(self) -> Any:
        """Build the model in the strategy's scope: with a checkpoint's parameters, or frozen, as asked for."""
        model = self.config.build()
        self.transfer.update(begin(model, self.workload.transfer))
        return model

    def trainer(self, rule: Optimizer) -> ReplicaTrainer:
        smoothing = self.workload.options.label_smoothing
        return ReplicaTrainer(self.replication.strategy, self.build, rule, self.replication.across, smoothing)

    def data(self) -> SyntheticReplicas | Epochs:
        """Return the training batches of this process's replicas."""
        config, data, replication = self.config, self.workload.data, self.replication
        shard = ReplicaShard(
            replication.strategy, config.batch, self.trial.seed, replication.first, replication.replicas
        )
        size: tuple[int, ...] = config.shape[1:]
        flips = data.augmentation is Augmentation.standard
        if config.arrays is not None:
            size, flips = config.arrays.images.shape[2:], config.arrays.flips
        decoded = config.images is not None
        augment = augment_for(
            config.source, data, config.shape, size=() if decoded else size, flips=flips, decoded=decoded
        )
        if config.images is not None:
            decoder = TrainingDecoder(config.images, config.shape, data.augmentation, shard.seed, augment.instances)
            return ImageFolderEpochs(shard, decoder, augment)
        if config.arrays is not None:
            return ArrayEpochs(shard, config.source, config.arrays, augment, config.shape)
        return SyntheticReplicas(shard, augment, config.shape, config.classes)
