"""``program: tensorflow``: a model of the catalog trained by a custom loop under ``tf.distribute``, and timed."""

import math
from typing import Any

from scalecurve_api.programs.tensorflow import TensorFlowWorkload
from scalecurve_api.programs.workload import DeviceType, Strategy
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.data.images import DataError
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.record.session import Facts, Session
from scalecurve_worker.rendezvous.communicator import find_communicator
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.steps.timing import HostClock
from scalecurve_worker.tensorflow import models
from scalecurve_worker.tensorflow.accuracy import train_to_accuracy
from scalecurve_worker.tensorflow.checksum import replica_checksums
from scalecurve_worker.tensorflow.clock import STEP_CLOCK, DeviceClock
from scalecurve_worker.tensorflow.cluster_membership import CHIEF, WORKER, ClusterMembership, follow, meet
from scalecurve_worker.tensorflow.config import TensorFlowConfig
from scalecurve_worker.tensorflow.data.sampler import Epochs
from scalecurve_worker.tensorflow.data.synthetic import SyntheticReplicas
from scalecurve_worker.tensorflow.devices import Devices, choose_devices, set_arithmetic, topologies_of
from scalecurve_worker.tensorflow.flops import step_flops
from scalecurve_worker.tensorflow.framework import framework_versions, tf
from scalecurve_worker.tensorflow.job import TensorFlowJob
from scalecurve_worker.tensorflow.parameter_server_program import lead
from scalecurve_worker.tensorflow.strategies import strategy_for
from scalecurve_worker.tensorflow.training import NoAllReduce, ReplicaTrainer
from scalecurve_worker.training.learning_rate import while_timed

AGAINST_TORCH = (
    "the same layers, parameter count and initial distributions; images channels last, other random draws, "
    "and real data in another shuffle"
)
"""What stands in the record about the program torch with the same model."""


def run(trial: TrialSpec) -> None:
    """Train and time one trial in this process."""
    strategy = trial.workload_as(TensorFlowWorkload).resolved_strategy
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
    workload = trial.workload_as(TensorFlowWorkload)
    replicas = trial.point.workers if strategy is Strategy.mirrored else 1
    devices = choose_devices(workload.device, identity.local_rank * replicas, replicas)
    set_arithmetic(workload.precision, devices, workload.options.deterministic, trial.seed)
    # mpirun's ranks meet through MPI.
    over_horovod = strategy is Strategy.horovod
    communicator = find_communicator(identity, out_folder()) if over_horovod else meet(trial, identity)
    replication = strategy_for(strategy)(workload, devices, communicator)
    run_job(TensorFlowJob(trial, identity, devices, replication, communicator, TensorFlowConfig.of(trial)))
    # Who leaves first looks like a failure to the others' collectives.
    communicator.barrier()
    if replication.across:
        replication.across.leave()


def _serve(trial: TrialSpec, identity: RankIdentity) -> None:
    workload = trial.workload_as(TensorFlowWorkload)
    cluster = ClusterMembership(trial, identity)
    lends = cluster.task.kind == WORKER
    devices = choose_devices(workload.device if lends else DeviceType.cpu, identity.local_rank, 1)
    set_arithmetic(workload.precision, devices, workload.options.deterministic, trial.seed)
    if cluster.task.kind == CHIEF:
        lead(trial, cluster, TensorFlowConfig.of(trial))
    else:
        follow(cluster, identity, devices)


def run_job(job: TensorFlowJob) -> None:
    """Time the training, then train to accuracy where that is asked for, and write the record."""
    rule = while_timed(job.workload.optimizer, job.trial.point.workers)
    trainer = ReplicaTrainer(job.replication.strategy, job.config.build, rule, job.replication.across)
    data = job.data()
    batches = data.endless()
    several = job.replication.replicas > 1 and job.trial.measure.exposed_communication
    alternate = NoAllReduce(trainer) if several else None
    bench = _attach(job, alternate)
    _note(job, bench.session.facts, trainer, data)
    bench.session.facts.initial_checksum = replica_checksums(job.replication.strategy, trainer.model)[0]
    while bench.step(job.config.batch):
        if alternate is not None and bench.kind is alternate.kind:
            bench.loss(trainer.update_alone(next(batches)))
        else:
            bench.loss(trainer.update(next(batches)))
    bench.session.facts.peak_memory_bytes = _peak_memory(job.devices)
    checksums = replica_checksums(job.replication.strategy, trainer.model)
    if job.trial.measure.accuracy is not None and isinstance(data, Epochs):
        train_to_accuracy(job, bench, data, job.trial.measure.accuracy)
    bench.finish(checksums)


def _attach(job: TensorFlowJob, alternate: NoAllReduce | None) -> Bench:
    session = Session(
        communicator=job.communicator,
        topologies=topologies_of(job.identity, job.devices)[: len(job.replication.strategy.extended.worker_devices)],
        # What TensorFlow has made of it, whatever was asked for.
        world=job.replication.replicas,
    )
    clock = DeviceClock(session.unix) if job.devices.on_gpu else HostClock(session.unix)
    return Bench(session, clock, alternate)


def _note(job: TensorFlowJob, facts: Facts, trainer: ReplicaTrainer, data: SyntheticReplicas | Epochs) -> None:
    options: dict[str, Any] = {
        "device": job.devices.names[0].partition(":")[0],
        "batchPerWorker": job.config.batch,
        "optimizer": type(trainer.optimizer).__name__,
        "threads": job.devices.threads,
        "dataFormat": "NHWC",
        "replicasPerProcess": len(job.devices.names),
        "batchNorm": "local",
        "deterministic": job.workload.options.deterministic,
        "againstTorch": AGAINST_TORCH,
        **job.replication.facts,
    }
    if isinstance(data, Epochs):
        options["datasetSamples"] = data.items
    if job.devices.on_gpu:
        options["stepClock"] = STEP_CLOCK
    facts.backend = job.replication.backend
    facts.strategy = job.replication.name
    facts.versions = framework_versions(job.devices.on_gpu)
    if job.replication.across:
        facts.versions |= job.replication.across.versions
    facts.parameters = sum(math.prod(each.shape) for each in trainer.model.trainable_variables)
    facts.flops_per_sample = step_flops(trainer.model)
    facts.options = options


def _peak_memory(devices: Devices) -> int | None:
    if not devices.on_gpu:
        return None
    return max(int(tf.config.experimental.get_memory_info(name)["peak"]) for name in devices.names)
