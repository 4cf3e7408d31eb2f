"""One process's part of a trial of the TensorFlow program: its replicas, its model and its data."""

from dataclasses import dataclass
from typing import Any

from scalecurve_api.programs.tensorflow import TensorFlowWorkload
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.tensorflow.config import TensorFlowConfig
from scalecurve_worker.tensorflow.data.arrays import ArrayEpochs
from scalecurve_worker.tensorflow.data.image_folder import ImageFolderEpochs
from scalecurve_worker.tensorflow.data.sampler import Epochs
from scalecurve_worker.tensorflow.data.synthetic import SyntheticReplicas
from scalecurve_worker.tensorflow.devices import Devices
from scalecurve_worker.tensorflow.strategies import ReplicaStrategy


@dataclass(frozen=True)
class TensorFlowJob:
    """A trial with one replica in this process, or several."""

    trial: TrialSpec
    identity: RankIdentity
    devices: Devices
    replication: ReplicaStrategy
    communicator: Communicator
    config: TensorFlowConfig

    @property
    def workload(self) -> TensorFlowWorkload:
        return self.trial.workload_as(TensorFlowWorkload)

    def data(self) -> SyntheticReplicas | Epochs:
        config, first = self.config, self.replication.first
        strategy = self.replication.strategy
        common: dict[str, Any] = {
            "batch": config.batch,
            "shape": config.shape,
            "seed": self.trial.seed,
            "first": first,
        }
        world = self.replication.replicas
        if config.images is not None:
            return ImageFolderEpochs(strategy, config.images, world=world, **common)
        if config.arrays is None:
            return SyntheticReplicas(strategy, classes=config.classes, **common)
        return ArrayEpochs(strategy, config.source, config.arrays, world=world, **common)
