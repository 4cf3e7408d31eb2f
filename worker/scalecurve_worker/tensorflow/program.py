"""``program: tensorflow``: a model of the catalog trained by a custom loop under ``tf.distribute``, and timed."""

from __future__ import annotations

import math
from typing import Any

from scalecurve_api.programs.legality import strategy_of
from scalecurve_api.programs.workload import Device, Strategy, Workload
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.data.images import DataError
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.record.session import Facts, Session, out_folder
from scalecurve_worker.rendezvous.communicator import Communicator, find_communicator
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.steps.timing import HostClock
from scalecurve_worker.tensorflow import models
from scalecurve_worker.tensorflow.accuracy import train_to_accuracy
from scalecurve_worker.tensorflow.alternates import NoAllReduce
from scalecurve_worker.tensorflow.checksum import replica_checksums
from scalecurve_worker.tensorflow.clock import STEP_CLOCK, DeviceClock
from scalecurve_worker.tensorflow.cluster import meet
from scalecurve_worker.tensorflow.cluster_membership import CHIEF, WORKER, ClusterMembership
from scalecurve_worker.tensorflow.cluster_server import follow
from scalecurve_worker.tensorflow.config import TensorFlowConfig
from scalecurve_worker.tensorflow.data.arrays import ArrayEpochs
from scalecurve_worker.tensorflow.data.image_folder import ImageFolderEpochs
from scalecurve_worker.tensorflow.data.sampler import Epochs
from scalecurve_worker.tensorflow.data.synthetic import SyntheticReplicas
from scalecurve_worker.tensorflow.devices import Devices, choose_devices, seats_of, set_arithmetic
from scalecurve_worker.tensorflow.flops import step_flops
from scalecurve_worker.tensorflow.framework import framework_versions, tf
from scalecurve_worker.tensorflow.parameter_server_program import lead
from scalecurve_worker.tensorflow.strategies import STRATEGIES, ReplicaStrategy
from scalecurve_worker.tensorflow.training import ReplicaTrainer
from scalecurve_worker.training.learning_rate import while_timed

AGAINST_TORCH = (
    "the same layers, parameter count and initial distributions; images channels last, other random draws, "
    "and real data in another shuffle"
)
"""What stands in the record about the program torch with the same model."""


def run(trial: TrialSpec) -> None:
    """Train and time one trial in this process.

    Raises:
        WorkloadError: what is asked for does not go on this machine or in this release.
        CommunicatorError: processes that cannot meet.
    """
    strategy = strategy_of(trial.workload) or Strategy.one_device
    try:
        if strategy is Strategy.parameter_server:
            _serve(trial, identify())
        else:
            _replicate(trial, identify(), strategy)
    except models.ModelError as error:
        raise WorkloadError(f"workload.model: {error}") from error
    except DataError as error:
        raise WorkloadError(f"workload.data: {error}") from error


def _replicate(trial: TrialSpec, identity: RankIdentity, strategy: Strategy) -> None:
    replicas = trial.point.workers if strategy is Strategy.mirrored else 1
    devices = choose_devices(trial.workload.device, identity.local_rank * replicas, replicas)
    set_arithmetic(trial.workload.precision, devices, trial.workload.options.deterministic, trial.seed)
    # mpirun's ranks meet through MPI.
    over_horovod = strategy is Strategy.horovod
    communicator = find_communicator(identity, out_folder()) if over_horovod else meet(trial, identity)
    spread = STRATEGIES[strategy](trial.workload, devices, communicator)
    Job(trial, identity, devices, spread, communicator).run()
    # Who leaves first looks like a failure to the others' collectives.
    communicator.barrier()
    if spread.across:
        spread.across.leave()


def _serve(trial: TrialSpec, identity: RankIdentity) -> None:
    cluster = ClusterMembership(trial, identity)
    lends = cluster.task.kind == WORKER
    devices = choose_devices(trial.workload.device if lends else Device.cpu, identity.local_rank, 1)
    set_arithmetic(trial.workload.precision, devices, trial.workload.options.deterministic, trial.seed)
    if cluster.task.kind == CHIEF:
        lead(trial, cluster, TensorFlowConfig.of(trial))
    else:
        follow(cluster, identity, devices)


class Job:
    """This process's part of a trial with one replica or several."""

    def __init__(
        self,
        trial: TrialSpec,
        identity: RankIdentity,
        devices: Devices,
        spread: ReplicaStrategy,
        communicator: Communicator,
    ) -> None:
        self.trial = trial
        self.workload: Workload = trial.workload
        self.identity = identity
        self.devices = devices
        self.spread = spread
        self.communicator = communicator
        self.asked = TensorFlowConfig.of(trial)
        self.batch = self.asked.batch

    def run(self) -> None:
        """Time the training, then train to accuracy where that is asked for, and write the record."""
        asked = self.asked
        rule = while_timed(self.workload.optimizer, self.trial.point.workers)
        trainer = ReplicaTrainer(self.spread.strategy, asked.build, rule, self.spread.across)
        data = self._data()
        batches = data.endless()
        several = self.spread.replicas > 1 and self.trial.measure.exposed_communication
        alternate = NoAllReduce(trainer) if several else None
        bench = self._attach(alternate)
        self._note(bench.session.facts, trainer, data)
        bench.session.facts.initial_checksum = replica_checksums(self.spread.strategy, trainer.model)[0]
        while bench.step(self.batch):
            if alternate is not None and bench.kind is alternate.kind:
                bench.loss(trainer.update_alone(next(batches)))
            else:
                bench.loss(trainer.update(next(batches)))
        bench.session.facts.peak_memory_bytes = self._peak_memory()
        checksums = replica_checksums(self.spread.strategy, trainer.model)
        if self.trial.measure.accuracy is not None and isinstance(data, Epochs):
            train_to_accuracy(self, bench, data, self.trial.measure.accuracy)
        bench.finish(checksums)

    def _data(self) -> SyntheticReplicas | Epochs:
        asked, strategy, seed = self.asked, self.spread.strategy, self.trial.seed
        place = {"first": self.spread.first, "world": self.spread.replicas}
        if asked.images is not None:
            return ImageFolderEpochs(strategy, asked.images, batch=asked.batch, shape=asked.shape, seed=seed, **place)
        if asked.arrays is None:
            drawn = {"batch": asked.batch, "classes": asked.classes, "seed": seed, "first": self.spread.first}
            return SyntheticReplicas(strategy, shape=asked.shape, **drawn)
        return ArrayEpochs(
            strategy, asked.source, asked.arrays, batch=asked.batch, shape=asked.shape, seed=seed, **place
        )

    def _attach(self, alternate: NoAllReduce | None) -> Bench:
        session = Session(
            communicator=self.communicator,
            seats=seats_of(self.identity, self.devices)[: len(self.spread.strategy.extended.worker_devices)],
            # What TensorFlow has made of it, whatever was asked for.
            world=self.spread.replicas,
        )
        clock = DeviceClock(session.unix) if self.devices.on_gpu else HostClock(session.unix)
        return Bench(session, clock, None, alternate)

    def _note(self, facts: Facts, trainer: ReplicaTrainer, data: SyntheticReplicas | Epochs) -> None:
        options: dict[str, Any] = {
            "device": self.devices.names[0].partition(":")[0],
            "batchPerWorker": self.batch,
            "optimizer": type(trainer.optimizer).__name__,
            "threads": self.devices.threads,
            "dataFormat": "NHWC",
            "replicasPerProcess": len(self.devices.names),
            "batchNorm": "local",
            "deterministic": self.workload.options.deterministic,
            "againstTorch": AGAINST_TORCH,
            **self.spread.facts,
        }
        if isinstance(data, Epochs):
            options["datasetSamples"] = data.items
        if self.devices.on_gpu:
            options["stepClock"] = STEP_CLOCK
        facts.backend = self.spread.backend
        facts.strategy = self.spread.name
        facts.versions = framework_versions(self.devices.on_gpu)
        if self.spread.across:
            facts.versions |= self.spread.across.versions
        facts.parameters = sum(math.prod(each.shape) for each in trainer.model.trainable_variables)
        facts.flops_per_sample = step_flops(trainer.model)
        facts.options = options

    def _peak_memory(self) -> int | None:
        if not self.devices.on_gpu:
            return None
        return max(int(tf.config.experimental.get_memory_info(name)["peak"]) for name in self.devices.names)
