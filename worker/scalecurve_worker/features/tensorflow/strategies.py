"""``tf.distribute`` strategies by their names here, and what each of them really uses."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scalecurve_api.features.tensorflow.fields import Communication, CrossDeviceOps, TensorFlowWorkload
from scalecurve_api.registry import Registry
from scalecurve_worker.features.tensorflow.cluster_membership import OwnAddress, tf_config
from scalecurve_worker.features.tensorflow.devices import Devices
from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.features.tensorflow.training import ProcessGroup
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.rendezvous.communicator import Communicator

_CROSS_DEVICE_OPS = {
    CrossDeviceOps.nccl: "NcclAllReduce",
    CrossDeviceOps.hierarchical_copy: "HierarchicalCopyAllReduce",
    CrossDeviceOps.reduction_to_one_device: "ReductionToOneDevice",
}
# What carries the sum, by the class that makes it; CollectiveAllReduce has several ways.
_CARRIERS = {name: operation.value for operation, name in _CROSS_DEVICE_OPS.items()}


@dataclass(frozen=True)
class ReplicaStrategy:
    """A strategy of TensorFlow; ``backend`` is what carries its sums, None where nothing is summed.

    ``across`` adds up between processes where the strategy itself knows of this one alone.
    """

    strategy: Any
    backend: str | None
    facts: dict[str, str] = field(default_factory=dict)
    across: ProcessGroup | None = None

    @property
    def name(self) -> str | None:
        return self.across.name if self.across else type(self.strategy).__name__

    @property
    def replicas(self) -> int:
        """Replicas over all processes, as TensorFlow or Horovod has them."""
        return self.across.size if self.across else int(self.strategy.num_replicas_in_sync)

    @property
    def first(self) -> int:
        """The number, among all, of the replica that the strategy calls 0."""
        return self.across.rank if self.across else 0


def one_device(workload: TensorFlowWorkload, devices: Devices, communicator: Communicator) -> ReplicaStrategy:
    """Return one replica, without any sum."""
    return ReplicaStrategy(tf.distribute.OneDeviceStrategy(devices.names[0]), None)


def mirrored(workload: TensorFlowWorkload, devices: Devices, communicator: Communicator) -> ReplicaStrategy:
    """Return replicas on the devices of this process."""
    operation = workload.cross_device_ops or CrossDeviceOps.default
    if operation is CrossDeviceOps.nccl and not devices.on_gpu:
        raise WorkloadError(
            "workload.crossDeviceOps: nccl needs GPUs, but these replicas are on CPUs, where TensorFlow has no "
            "NcclAllReduce; expected default, hierarchical-copy, reduction-to-one-device"
        )
    ops = getattr(tf.distribute, _CROSS_DEVICE_OPS[operation])() if operation in _CROSS_DEVICE_OPS else None
    return described(tf.distribute.MirroredStrategy(devices.names, cross_device_ops=ops), devices.on_gpu)


def multi_worker_mirrored(
    workload: TensorFlowWorkload, devices: Devices, communicator: Communicator
) -> ReplicaStrategy:
    """Return one replica in each process, and collectives between them."""
    communication = workload.communication or Communication.auto
    if communication is Communication.nccl and not devices.on_gpu:
        raise WorkloadError(
            "workload.communication: nccl needs a GPU, but this rank drives a CPU, where TensorFlow would take its "
            "ring instead; expected auto, ring"
        )
    address = OwnAddress()
    workers = communicator.all_gather(address.text)
    os.environ["TF_CONFIG"] = tf_config({"worker": workers}, "worker", communicator.rank)
    implementation = getattr(tf.distribute.experimental.CommunicationImplementation, communication.name.upper())
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    finally:
        address.close()
    return described(strategy, devices.on_gpu)


def described(strategy: Any, on_gpu: bool) -> ReplicaStrategy:
    """Say what a strategy's sums are made by: looked up in the strategy, not taken from the request."""
    extended = strategy.extended
    ops = getattr(extended, "_cross_device_ops", None) or getattr(extended, "_collective_ops", None)
    kind = type(ops).__name__
    facts = {"crossDeviceOps": kind}
    carrier = _CARRIERS.get(kind)
    if carrier is None:
        options = getattr(ops, "_options", None) or getattr(extended, "_communication_options", None)
        implementation = getattr(getattr(options, "implementation", None), "name", "AUTO")
        facts["communication"] = implementation
        # TensorFlow's rule (CollectiveParamResolverLocal): NCCL needs GPUs, and is taken there unless RING is named.
        carrier = "nccl" if on_gpu and implementation != "RING" else "ring"
    return ReplicaStrategy(strategy, carrier, facts)


Make = Callable[[TensorFlowWorkload, Devices, Communicator], ReplicaStrategy]


@dataclass(frozen=True)
class ReplicaMaker:
    """What one process does for a strategy of program tensorflow: makes it from the workload and its devices."""

    make: Make


STRATEGIES: Registry[ReplicaMaker] = Registry(
    "scalecurve_worker.tensorflow_strategies",
    "strategy of program tensorflow",
    ReplicaMaker,
    {
        "one-device": ReplicaMaker(one_device),
        "mirrored": ReplicaMaker(mirrored),
        "multi-worker-mirrored": ReplicaMaker(multi_worker_mirrored),
    },
)
