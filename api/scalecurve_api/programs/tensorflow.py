"""What ``program: tensorflow`` can do, and what each of its strategies must turn out to be at run time."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from scalecurve_api.programs import horovod
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.options import BatchNorm, Options
from scalecurve_api.programs.workload import (
    Backend,
    Communication,
    CrossDeviceOps,
    ParameterServer,
    Precision,
    Strategy,
    Workload,
)

MODELS: tuple[str, ...] = (
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "vgg16",
    "vgg19",
    "alexnet",
    "resnet20_cifar",
    "resnet32_cifar",
    "resnet44_cifar",
    "resnet56_cifar",
    "resnet110_cifar",
    "mlp",
    "resnet20",
    "resnet32",
    "resnet44",
    "resnet56",
    "resnet110",
)
"""Names of the models that the program has in Keras; its registry is tested to hold exactly these."""

CLASSES: dict[Strategy | None, str] = {
    Strategy.one_device: "OneDeviceStrategy",
    Strategy.mirrored: "MirroredStrategy",
    Strategy.multi_worker_mirrored: "CollectiveAllReduceStrategy",
    Strategy.parameter_server: "ParameterServerStrategyV2",
    Strategy.horovod: horovod.TAPE,
}
"""Strategy -> the class of TensorFlow or Horovod that ``RankRecord.strategy`` must name."""

GRPC = "grpc"
"""What carries gradients and parameters to TensorFlow's parameter servers."""

_OPTIONS = ("deterministic", "channels_last", "reshuffle", "batch_norm")
_HOROVOD_OPTIONS = ("comm_hook", "bucket_cap_mb")


def carrier_of(workload: Workload, strategy: Strategy | None, on_gpu: bool) -> str | None:
    """What must carry the sums, as ``RankRecord.backend``; None where nothing is summed.

    ``ring`` is TensorFlow's own, in memory within a process and by gRPC between them. ``auto`` and ``default`` are
    NCCL where every device is a GPU.
    """
    if strategy is Strategy.parameter_server:
        return GRPC
    if strategy is Strategy.horovod:
        return horovod.carrier_of(workload, on_gpu)
    if strategy is Strategy.mirrored:
        asked = workload.cross_device_ops or CrossDeviceOps.default
        if asked is not CrossDeviceOps.default:
            return asked.value
    elif strategy is Strategy.multi_worker_mirrored:
        named = workload.communication or Communication.auto
        if named is not Communication.auto:
            return named.value
    else:
        return None
    return "nccl" if on_gpu else "ring"


def illegal_tensorflow(workload: Workload, strategy: Strategy | None) -> Iterator[tuple[str, object, str]]:
    """Yield ``(field, given, what is allowed)`` for everything that the program would have to ignore."""
    carrier = carrier_of(workload, strategy, on_gpu=True) or "nothing"
    if workload.backend in (Backend.nccl, Backend.mpi) and carrier != workload.backend.value:
        yield "workload.backend", workload.backend.value, f"auto: gradients are carried by {carrier} here"
    if workload.precision is Precision.fp16:
        yield "workload.precision", "fp16", "fp32, tf32 or bf16 with program tensorflow"
    if strategy is Strategy.parameter_server and workload.data.source is not DataSource.synthetic:
        yield "workload.data.source", workload.data.source.value, "synthetic with TensorFlow's parameter servers"
    known: tuple[str, ...] = _OPTIONS
    if strategy is Strategy.horovod:
        known += _HOROVOD_OPTIONS
        if workload.options.comm_hook not in horovod.HOOKS:
            yield "workload.options.commHook", workload.options.comm_hook.value, "none or fp16 with strategy horovod"
    for name, field in Options.model_fields.items():
        given = getattr(workload.options, name)
        if name not in known and given != field.default:
            yield f"workload.options.{field.alias}", _plain(given), "left out: program tensorflow has no such option"
    if workload.options.batch_norm not in (None, BatchNorm.local):
        given = workload.options.batch_norm
        yield "workload.options.batchNorm", given.value, "local with program tensorflow: each replica's own batch"
    served = workload.parameter_server
    if strategy is Strategy.parameter_server and served != ParameterServer(servers=served.servers):
        yield (
            "workload.parameterServer",
            served.model_dump(mode="json", by_alias=True),
            "servers alone with program tensorflow: its updates are asynchronous and wait for nobody",
        )


def _plain(given: object) -> object:
    return given.value if isinstance(given, Enum) else given
