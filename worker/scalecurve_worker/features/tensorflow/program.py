"""``program: tensorflow``: a model of the catalog trained by a custom loop under ``tf.distribute``, and timed."""

import math

from scalecurve_api.features.tensorflow.fields import TensorFlowWorkload
from scalecurve_api.programs.workload import DeviceType
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.tensorflow import models
from scalecurve_worker.features.tensorflow.cluster_membership import CHIEF, WORKER, ClusterMembership, follow, meet
from scalecurve_worker.features.tensorflow.data.sampler import Epochs
from scalecurve_worker.features.tensorflow.data.synthetic import SyntheticReplicas
from scalecurve_worker.features.tensorflow.devices import DeviceClock, choose_devices, set_arithmetic, topologies_of
from scalecurve_worker.features.tensorflow.framework import framework_versions, tf
from scalecurve_worker.features.tensorflow.job import TensorFlowConfig, TensorFlowJob
from scalecurve_worker.features.tensorflow.models import step_flops
from scalecurve_worker.features.tensorflow.parameter_server_program import Chief
from scalecurve_worker.features.tensorflow.strategies import STRATEGIES
from scalecurve_worker.features.tensorflow.training import NoAllReduce, ReplicaTrainer, replica_checksums
from scalecurve_worker.features.tensorflow.transfer import frozen_checksum
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.process.programs import measurements
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.record.session import Facts, Session
from scalecurve_worker.rendezvous.communicator import find_communicator
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.steps.timing import HostClock
from scalecurve_worker.training.data.images import DataError
from scalecurve_worker.training.learning_rate import while_timed

# What stands in the record about the program torch with the same model.
AGAINST_TORCH = (
    "the same layers, parameter count and initial distributions, and real data in the same order; "
    "images channels last, and other random draws"
)


def run(trial: TrialSpec) -> None:
    """Train and time one trial in this process."""
    workload = trial.workload_as(TensorFlowWorkload)
    try:
        if workload.roles:
            _serve(trial, identify(), workload)
        else:
            _replicate(trial, identify(), workload)
    except models.ModelError as error:
        raise WorkloadError(f"workload.model: {error}") from error
    except DataError as error:
        raise WorkloadError(f"workload.data: {error}") from error


def _replicate(trial: TrialSpec, identity: RankIdentity, workload: TensorFlowWorkload) -> None:
    replicas = trial.point.workers if workload.one_process else 1
    devices = choose_devices(workload.device, identity.local_rank * replicas, replicas)
    set_arithmetic(workload.precision, devices, workload.options.deterministic, trial.seed)
    # mpirun's ranks meet through MPI.
    through_mpi = workload.needs_mpirun
    communicator = find_communicator(identity, out_folder()) if through_mpi else meet(trial, identity)
    replication = STRATEGIES.get(workload.resolved_strategy.name).make(workload, devices, communicator)
    run_job(TensorFlowJob(trial, identity, devices, replication, communicator, TensorFlowConfig.of(trial)))
    # Who leaves first looks like a failure to the others' collectives.
    communicator.barrier()
    if replication.across:
        replication.across.leave()


def _serve(trial: TrialSpec, identity: RankIdentity, workload: TensorFlowWorkload) -> None:
    cluster = ClusterMembership(trial, identity)
    device = workload.device if cluster.kind == WORKER else DeviceType.cpu
    devices = choose_devices(device, identity.local_rank, 1)
    set_arithmetic(workload.precision, devices, workload.options.deterministic, trial.seed)
    if cluster.kind == CHIEF:
        Chief(trial, cluster, TensorFlowConfig.of(trial)).run()
    else:
        follow(cluster, identity, devices)


def run_job(job: TensorFlowJob) -> None:
    """Time the training, then measure what else the trial asks for, and write the record."""
    strategy = job.replication.strategy
    trainer = job.trainer(while_timed(job.workload.optimizer, job.trial.point.workers))
    data = job.data()
    batches = data.endless()
    several = job.replication.replicas > 1 and job.trial.measure.exposed_communication
    bench = _attach(job, NoAllReduce(trainer) if several else None)
    facts = bench.session.facts
    _note(job, facts, trainer, data)
    facts.initial_checksum = replica_checksums(strategy, trainer.model)[0]
    facts.frozen_checksums += frozen_checksum(strategy, trainer.model)
    waiting = bench.sections.section("input")
    while bench.step(job.config.batch):
        alone = bench.kind is NoAllReduce.kind
        with waiting:
            batch = next(batches)
        bench.loss(trainer.update(batch, communicate=not alone))
    if job.devices.on_gpu:
        facts.peak_memory_bytes = max(
            int(tf.config.experimental.get_memory_info(name)["peak"]) for name in job.devices.names
        )
    facts.frozen_checksums += frozen_checksum(strategy, trainer.model)
    checksums = replica_checksums(strategy, trainer.model)
    for request, measuring in measurements(job.trial, "tensorflow") if isinstance(data, Epochs) else ():
        measuring.run(job, bench, data, request)
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
    facts.options = {
        "device": job.devices.names[0].partition(":")[0],
        "batchPerWorker": job.config.batch,
        "optimizer": type(trainer.optimizer).__name__,
        "threads": job.devices.threads,
        "dataFormat": "NHWC",
        "replicasPerProcess": len(job.devices.names),
        "batchNorm": "local",
        "deterministic": job.workload.options.deterministic,
        "againstTorch": AGAINST_TORCH,
        **job.transfer,
        **job.replication.facts,
    }
    if (instances := job.workload.data.instances) > 1:
        # A sample counts once, however many of its copies a step has; so an epoch stays one pass over the set.
        facts.options["instances"] = instances
        facts.options["imagesPerWorker"] = instances * job.config.batch
    if isinstance(data, Epochs):
        facts.options["datasetSamples"] = data.items
    if job.devices.on_gpu:
        facts.options["stepClock"] = DeviceClock.rule
    facts.backend = job.replication.backend
    facts.strategy = job.replication.name
    facts.versions = framework_versions(job.devices.on_gpu)
    if job.replication.across:
        facts.versions |= job.replication.across.versions
    trained = sum(math.prod(each.shape) for each in trainer.model.trainable_variables)
    frozen = job.transfer.get("parametersFrozen", 0)
    assert isinstance(frozen, int)
    facts.parameters = trained + frozen
    facts.flops_per_sample = step_flops(trainer.model)
