"""Processes with one replica each, whose gradients Horovod reduces without TensorFlow's strategy knowing.

Only ``DistributedGradientTape`` is used, over TensorFlow's variables and not Keras's. Under Keras 3 it does not take
the latter, and Horovod's optimizer for Keras adds up nothing and says nothing.
"""

from collections.abc import Iterable
from typing import Any

from scalecurve_api.features.horovod.strategy import TAPE
from scalecurve_api.features.tensorflow.fields import TensorFlowWorkload
from scalecurve_api.programs.torch_options import CommHook
from scalecurve_worker.features.horovod.library import READ_FROM, join, load, version
from scalecurve_worker.features.tensorflow.devices import Devices
from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.features.tensorflow.strategies import ReplicaMaker, ReplicaStrategy
from scalecurve_worker.rendezvous.communicator import Communicator


class HorovodReplicas:
    """This process among those that mpirun started."""

    def __init__(self, workload: TensorFlowWorkload, devices: Devices) -> None:
        """Initialize Horovod and select the carrier."""
        self._library = load(tf, "workload.strategy")
        self._device = devices.names[0]
        half = workload.options.comm_hook is CommHook.fp16
        self._compression = self._library.Compression.fp16 if half else self._library.Compression.none
        self.carrier = join(self._library, workload, devices.on_gpu, self._probe)
        self.rank: int = self._library.rank()
        self.size: int = self._library.size()
        self.versions = {"horovod": version()}

    @property
    def name(self) -> str | None:
        """``DistributedGradientTape`` for a tape with Horovod's gradient: the class it makes has another name."""
        gradient = type(self.tape(tf.GradientTape())).gradient
        return TAPE if gradient.__module__.startswith("horovod.tensorflow") else None

    def tape(self, tape: Any) -> Any:
        return self._library.DistributedGradientTape(tape, compression=self._compression)

    def start_alike(self, variables: Iterable[Any]) -> None:
        self._library.broadcast_variables([each.value for each in variables], root_rank=0)

    def leave(self) -> None:
        self._library.shutdown()

    def _probe(self, name: str) -> None:
        with tf.device(self._device):
            self._library.allreduce(tf.ones(1024), name=name)


def horovod(workload: TensorFlowWorkload, devices: Devices, communicator: Communicator) -> ReplicaStrategy:
    """Make one replica in each process, with Horovod between them."""
    group = HorovodReplicas(workload, devices)
    return ReplicaStrategy(tf.distribute.OneDeviceStrategy(devices.names[0]), group.carrier, READ_FROM, group)


HOROVOD = ReplicaMaker(horovod)
