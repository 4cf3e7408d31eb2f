"""The devices of one process: GPUs, or logical CPUs as replicas; chosen before TensorFlow starts."""

import os
from dataclasses import dataclass
from typing import Any

from scalecurve_api.programs.workload import DeviceType, Precision
from scalecurve_api.record.rank import RankTopology
from scalecurve_worker.features.tensorflow.framework import keras, tf
from scalecurve_worker.monitor.nvml import visible_uuid
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.process.startup import shares_of_cores
from scalecurve_worker.process.topology import topology
from scalecurve_worker.steps.timing import HostClock


@dataclass(frozen=True)
class Devices:
    """The devices of this process, one for each replica, by TensorFlow's names, as ``GPU:0``."""

    on_gpu: bool
    names: tuple[str, ...]
    threads: int  # that one operation computes with on the CPU, over all replicas of this process


def choose_devices(device: DeviceType, first: int, replicas: int) -> Devices:
    """Show TensorFlow ``replicas`` GPUs from the ``first`` of this machine on, or as many logical CPUs."""
    gpus = [] if device is DeviceType.cpu else tf.config.list_physical_devices("GPU")
    if device is DeviceType.gpu and not gpus:
        build = "sees no GPU" if tf.test.is_built_with_cuda() else "is built without CUDA"
        raise WorkloadError(f"workload.device: gpu requested, but TensorFlow here {build}; expected cpu, auto")
    if gpus:
        mine = gpus[first % len(gpus) :][:replicas]
        if len(mine) < replicas:
            raise WorkloadError(
                f"workload.device: needs {replicas} GPUs in one process, but TensorFlow sees {len(gpus)}"
            )
        tf.config.set_visible_devices(mine, "GPU")
    elif tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices([], "GPU")
    text = os.environ.get("OMP_NUM_THREADS", "")
    threads = replicas * (int(text) if text.isdigit() and int(text) else len(os.sched_getaffinity(0)))
    if not gpus:
        host = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * replicas)
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        # One more than replicas: each has its own operation to run while another waits for a sum.
        tf.config.threading.set_inter_op_parallelism_threads(replicas + 1)
    kind = "GPU" if gpus else "CPU"
    return Devices(bool(gpus), tuple(f"{kind}:{index}" for index in range(replicas)), threads)


def set_arithmetic(precision: Precision, devices: Devices, deterministic: bool, seed: int) -> None:
    """Set the precision, determinism and the seed of everything that is drawn."""
    if precision is Precision.fp16:
        raise WorkloadError("workload.precision: fp16 is not in program tensorflow; expected fp32, tf32, bf16")
    if precision is Precision.tf32 and not devices.on_gpu:
        raise WorkloadError("workload.precision: tf32 needs a GPU, but this rank drives a CPU; expected fp32, bf16")
    tf.config.experimental.enable_tensor_float_32_execution(precision is Precision.tf32)
    keras.mixed_precision.set_global_policy("mixed_bfloat16" if precision is Precision.bf16 else "float32")
    keras.utils.set_random_seed(seed)
    if deterministic:
        tf.config.experimental.enable_op_determinism()


def topologies_of(identity: RankIdentity, devices: Devices) -> list[RankTopology]:
    """Return the workers that this process drives: itself, or one per replica with its share of the cores."""
    replicas = len(devices.names)
    if replicas == 1:
        return [_add_device(topology(identity), devices, 0)]
    process, topologies = topology(identity), []
    for replica, cores in enumerate(shares_of_cores(replicas)):
        place = {"rank": replica, "local_rank": replica, "cores": cores, "device": f"cpu:{','.join(map(str, cores))}"}
        topologies.append(_add_device(process.model_copy(update=place), devices, replica))
    return topologies


class DeviceClock(HostClock):
    """The host's clock, with windows that open and close on idle devices: TensorFlow has no event to record on a GPU.

    Windows are exact. Steps inside one are as the host saw them return, which may be before their last kernels end.
    """

    rule = "host: a step ends when its call returns; windows end when the devices are idle"

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def close(self) -> int:
        tf.test.experimental.sync_devices()
        return super().close()


def _add_device(where: RankTopology, devices: Devices, replica: int) -> RankTopology:
    if not devices.on_gpu:
        return where
    shown = tf.config.get_visible_devices("GPU")[replica]
    # Named /physical_device:GPU:3, by CUDA's number among those that this process may see.
    number = int(str(shown.name).rpartition(":")[2])
    device = visible_uuid(number, os.environ.get("CUDA_VISIBLE_DEVICES")) or f"gpu:{number}"
    details: dict[str, Any] = tf.config.experimental.get_device_details(shown)
    return where.model_copy(update={"device": device, "device_name": details.get("device_name", "GPU")})
