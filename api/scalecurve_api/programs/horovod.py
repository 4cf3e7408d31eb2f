"""What Horovod 0.28.1 can do, started by mpirun: program horovod, around the models of program torch, and strategy
horovod of program tensorflow."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from scalecurve_api.programs.collectives import launcher_of
from scalecurve_api.programs.options import BatchNorm, CommHook, Options
from scalecurve_api.programs.workload import AllReduce, Backend, Device, Launcher, Precision, Workload

VERSION = "0.28.1"
"""The one release that is built and tried; its last, of June 2023."""

WRAPPER = "DistributedOptimizer"
"""What ``RankRecord.strategy`` must say of program horovod."""

TAPE = "DistributedGradientTape"
"""The same of program tensorflow."""

MISSING = "Horovod is not installed here; `make horovod` builds it"
PART_MISSING = "Horovod is installed here without its part for {}; `make horovod` builds it"

_OPTIMIZERS = ("sgd", "adamw", "adagrad")
HOOKS = (CommHook.none, CommHook.fp16)
_FOREIGN_OPTIONS = (
    "static_graph",
    "gradient_as_bucket_view",
    "comm_hook_rank",
    "comm_hook_density",
    "fsdp_group_mb",
    "keep_threads",
)


def carrier_of(workload: Workload, on_gpu: bool) -> str:
    """What must carry the sums, as ``RankRecord.backend``: NCCL on GPUs and MPI on CPUs, unless one is named."""
    if workload.backend is not Backend.auto:
        return workload.backend.value
    return "nccl" if on_gpu else "mpi"


def illegal_horovod(workload: Workload) -> Iterator[tuple[str, object, str]]:
    """Yield ``(field, given, what is allowed)`` for what Horovod would ignore, or answer with an error of its own."""
    options = workload.options
    if launcher_of(workload) is not Launcher.mpirun:
        yield "workload.launcher", launcher_of(workload).value, "mpirun with program horovod: it starts its ranks"
    if workload.precision is Precision.fp16:
        # Gradients are scaled back before the optimizer's step, which is where Horovod waits for their sums.
        yield "workload.precision", "fp16", "fp32, tf32 or bf16 with program horovod"
    if workload.optimizer.name not in _OPTIMIZERS:
        allowed = ", ".join(_OPTIMIZERS)
        yield "workload.optimizer.name", workload.optimizer.name, f"one of {allowed} with program horovod"
    if workload.all_reduce is not AllReduce.auto and (workload.device is Device.cpu or workload.backend is Backend.mpi):
        yield "workload.allReduce", workload.all_reduce.value, "auto with program horovod, unless NCCL carries the sums"
    elif workload.all_reduce not in (AllReduce.auto, AllReduce.ring, AllReduce.tree):
        yield "workload.allReduce", workload.all_reduce.value, "auto, ring or tree with program horovod"
    if options.comm_hook not in HOOKS:
        yield "workload.options.commHook", options.comm_hook.value, "none or fp16 with program horovod"
    if options.batch_norm not in (None, BatchNorm.local):
        yield "workload.options.batchNorm", options.batch_norm.value, "local with program horovod: each rank's own"
    if options.channels_last:
        yield "workload.options.channelsLast", True, "false with program horovod: it refuses tensors in another order"
    for name in _FOREIGN_OPTIONS:
        field, given = Options.model_fields[name], getattr(options, name)
        if given != field.default:
            plain = given.value if isinstance(given, Enum) else given
            yield f"workload.options.{field.alias}", plain, "left out: Horovod has no such option"
