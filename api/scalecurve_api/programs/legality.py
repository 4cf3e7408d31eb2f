"""Which combinations of program, strategy, count, layout, device and library can mean what they say.

Each rule returns one sentence for people, or None. ``illegal`` is asked for every point before a device is
taken; the sources of the rules are the traps met in the frameworks themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from scalecurve_api.programs.collectives import illegal_collectives
from scalecurve_api.programs.horovod import illegal_horovod
from scalecurve_api.programs.optimizer import Decay, Optimizer
from scalecurve_api.programs.options import BatchNorm, CommHook, Options
from scalecurve_api.programs.tensorflow import illegal_tensorflow
from scalecurve_api.programs.training import illegal_training
from scalecurve_api.programs.workload import (
    Backend,
    Communication,
    CrossDeviceOps,
    Device,
    Precision,
    Program,
    Strategy,
    Updates,
    Workload,
)

STRATEGIES: dict[Program, tuple[Strategy, ...]] = {
    Program.torch: (
        Strategy.ddp,
        Strategy.single,
        Strategy.dp,
        Strategy.fsdp,
        Strategy.zero1,
        Strategy.parameter_server,
    ),
    Program.tensorflow: (
        Strategy.one_device,
        Strategy.mirrored,
        Strategy.multi_worker_mirrored,
        Strategy.parameter_server,
        Strategy.horovod,
    ),
    Program.horovod: (),
    Program.allreduce: (),
    Program.custom: (),
}
BACKENDS: dict[Program, tuple[Backend, ...]] = {
    Program.torch: (Backend.auto, Backend.nccl, Backend.gloo),
    Program.tensorflow: (Backend.auto, Backend.nccl, Backend.mpi),
    # Horovod 0.28.1 ends by a segmentation fault when gloo adds up and MPI has started the ranks.
    Program.horovod: (Backend.auto, Backend.nccl, Backend.mpi),
    Program.allreduce: (Backend.auto, Backend.nccl, Backend.gloo, Backend.mpi),
    Program.custom: tuple(Backend),
}
ONE_NODE = (Strategy.single, Strategy.dp, Strategy.one_device, Strategy.mirrored)
ONE_WORKER = (Strategy.single, Strategy.one_device)


def strategy_of(workload: Workload) -> Strategy | None:
    """The strategy that runs when none is named: the first of the program's own; None where it has none."""
    known = STRATEGIES[workload.program]
    return workload.strategy or (known[0] if known else None)


def illegal(workload: Workload, workers: int, nodes: int) -> Iterator[tuple[str, object, str]]:
    """Yield ``(field, given, what is allowed)`` for every rule the combination breaks.

    ``field`` is relative to ``spec``; whatever is settled only on the machine (``auto``) is not judged here.
    """
    yield from _strategy(workload, workers, nodes)
    yield from _device(workload)
    yield from illegal_collectives(workload, workers, nodes)
    yield from _tensorflow(workload, workers)
    yield from illegal_training(workload, strategy_of(workload))
    if workload.program is Program.tensorflow:
        yield from illegal_tensorflow(workload, strategy_of(workload))
    if workload.program is Program.torch:
        yield from _torch(workload)
    if workload.program is Program.horovod:
        yield from illegal_horovod(workload)
    if workload.program in (Program.torch, Program.horovod):
        yield from _rates(workload.optimizer)
    yield from _parameter_server(workload, workers)
    if workload.program is Program.custom and not workload.command:
        yield (
            "workload.command",
            workload.command,
            "the program 'custom' needs a command, as [python, train.py]",
        )
    if workload.program is not Program.custom and workload.command:
        yield "workload.command", workload.command, "a command goes with program 'custom' only"
    if workload.sizes.max_bytes < workload.sizes.min_bytes:
        yield (
            "workload.sizes.maxBytes",
            workload.sizes.max_bytes,
            f"at least minBytes, {workload.sizes.min_bytes}",
        )


def _strategy(workload: Workload, workers: int, nodes: int) -> Iterator[tuple[str, object, str]]:
    known = STRATEGIES[workload.program]
    given = workload.strategy
    if given is not None and given not in known:
        allowed = f"one of {', '.join(known)}" if known else "nothing: this program has no strategies"
        yield "workload.strategy", given.value, f"{allowed} for program {workload.program.value}"
        return
    strategy = strategy_of(workload)
    if strategy in ONE_WORKER and workers > 1:
        yield "workload.strategy", strategy.value, f"1 worker only, and {workers} are asked for"
    if strategy in ONE_NODE and nodes > 1:
        yield "workload.strategy", strategy.value, f"one node only, and the layout has {nodes}"
    if strategy is Strategy.dp and workload.device is Device.cpu:
        yield "workload.strategy", strategy.value, "GPUs only: DataParallel on CPUs is a pass-through"


def _device(workload: Workload) -> Iterator[tuple[str, object, str]]:
    cpu = workload.device is Device.cpu
    if workload.backend not in BACKENDS[workload.program]:
        allowed = ", ".join(BACKENDS[workload.program])
        yield (
            "workload.backend",
            workload.backend.value,
            f"one of {allowed} for program {workload.program.value}",
        )
    if cpu and workload.backend is Backend.nccl:
        yield "workload.backend", "nccl", "gloo or mpi on device cpu: NCCL needs GPUs"
    if cpu and workload.precision in (Precision.tf32, Precision.fp16):
        yield "workload.precision", workload.precision.value, "fp32 or bf16 on device cpu"


def _tensorflow(workload: Workload, workers: int) -> Iterator[tuple[str, object, str]]:
    ops, strategy = workload.cross_device_ops, strategy_of(workload)
    if ops is not None and strategy is not Strategy.mirrored:
        yield "workload.crossDeviceOps", ops.value, "goes with program tensorflow, strategy mirrored only"
    elif ops is CrossDeviceOps.hierarchical_copy and workers % 2 and workers > 1:
        # Seen in TF 2.21: with 3 replicas the third is dropped from the sum, without any error.
        yield (
            "workload.crossDeviceOps",
            ops.value,
            f"1 or an even number of workers: with {workers} it sums wrongly and says nothing",
        )
    elif ops is CrossDeviceOps.nccl and workload.device is Device.cpu:
        yield "workload.crossDeviceOps", "nccl", "another value on device cpu: NCCL needs GPUs"
    if workload.communication is not None and strategy is not Strategy.multi_worker_mirrored:
        yield (
            "workload.communication",
            workload.communication.value,
            "goes with program tensorflow, strategy multi-worker-mirrored only",
        )
    elif workload.communication is Communication.nccl and workload.device is Device.cpu:
        yield "workload.communication", "nccl", "auto or ring on device cpu: NCCL needs GPUs"


BATCH_NORM: dict[Strategy | None, tuple[BatchNorm, ...]] = {
    Strategy.ddp: (BatchNorm.broadcast, BatchNorm.local, BatchNorm.synchronized),
    Strategy.zero1: (BatchNorm.broadcast, BatchNorm.local, BatchNorm.synchronized),
    Strategy.fsdp: (BatchNorm.local, BatchNorm.synchronized),
    Strategy.parameter_server: (BatchNorm.local,),
}
"""What each strategy can do with batch norm's running statistics; the first is its own."""


def batch_norm_of(workload: Workload) -> BatchNorm | None:
    """What happens to batch norm's running statistics; None where one process has them all."""
    if workload.options.batch_norm is not None:
        return workload.options.batch_norm
    if workload.program is Program.horovod:
        return BatchNorm.local
    allowed = BATCH_NORM.get(strategy_of(workload))
    return allowed[0] if allowed else None


def _torch(workload: Workload) -> Iterator[tuple[str, object, str]]:
    options, optimizer, strategy = workload.options, workload.optimizer, strategy_of(workload)
    if options.comm_hook is not CommHook.none and strategy is not Strategy.ddp:
        yield "workload.options.commHook", options.comm_hook.value, "goes with strategy ddp only"
    for field, name, given, hook in (
        ("comm_hook_rank", "commHookRank", options.comm_hook_rank, CommHook.powersgd),
        ("comm_hook_density", "commHookDensity", options.comm_hook_density, CommHook.top_k),
    ):
        if given != Options.model_fields[field].default and options.comm_hook is not hook:
            yield f"workload.options.{name}", given, f"goes with commHook {hook.value} only"
    if options.batch_norm is not None:
        allowed = BATCH_NORM.get(strategy, ())
        if options.batch_norm not in allowed:
            said = f"one of {', '.join(allowed)}" if allowed else "nothing: one process has them all"
            yield "workload.options.batchNorm", options.batch_norm.value, f"{said} for strategy {strategy}"
        elif options.batch_norm is BatchNorm.synchronized and workload.device is Device.cpu:
            yield "workload.options.batchNorm", "synchronized", "broadcast or local on device cpu: it needs GPUs"
    if strategy in (Strategy.dp, Strategy.fsdp, Strategy.zero1) and options.static_graph:
        yield "workload.options.staticGraph", True, f"false for strategy {strategy}"
    if strategy is not Strategy.fsdp and options.fsdp_group_mb != Options.model_fields["fsdp_group_mb"].default:
        yield "workload.options.fsdpGroupMb", options.fsdp_group_mb, "goes with strategy fsdp only"
    if strategy is not Strategy.dp and not options.keep_threads:
        yield "workload.options.keepThreads", False, "goes with strategy dp only"
    if strategy is Strategy.dp and options.compile:
        yield "workload.options.compile", True, "false for strategy dp: replicas are made anew in every step"
    by_layer = optimizer.name in ("lars", "lamb")
    if by_layer and strategy in (Strategy.fsdp, Strategy.parameter_server):
        allowed_names = "sgd, adamw or adagrad"
        why = f"{strategy} cuts layers apart, and {optimizer.name} wants each layer's norm"
        yield "workload.optimizer.name", optimizer.name, f"{allowed_names}: {why}"


def _rates(optimizer: Optimizer) -> Iterator[tuple[str, object, str]]:
    if optimizer.milestones and optimizer.decay is not Decay.multi_step:
        yield "workload.optimizer.milestones", list(optimizer.milestones), "goes with decay multi-step only"
    if optimizer.decay is Decay.multi_step and not optimizer.milestones:
        yield "workload.optimizer.milestones", [], "the epochs after which the rate falls, as [30, 60, 80]"


def _parameter_server(workload: Workload, workers: int) -> Iterator[tuple[str, object, str]]:
    asked = workload.parameter_server
    where = "workload.parameterServer"
    if strategy_of(workload) is not Strategy.parameter_server or workload.program is not Program.torch:
        return
    synchronous = asked.updates is Updates.synchronous
    if workload.backend is not Backend.auto:
        yield "workload.backend", workload.backend.value, "auto: parameter servers of program torch are reached by TCP"
    if asked.backup_workers and not synchronous:
        yield f"{where}.backupWorkers", asked.backup_workers, "0: asynchronous updates wait for nobody"
    elif asked.backup_workers >= workers > 1:
        yield f"{where}.backupWorkers", asked.backup_workers, f"fewer than the {workers} workers of every point"
    elif asked.backup_workers and asked.servers > 1:
        # Each server would drop the gradients that came last to it, and no sample be counted rightly.
        yield f"{where}.backupWorkers", asked.backup_workers, f"0 with {asked.servers} servers, or servers: 1"
    if asked.staleness_aware and synchronous:
        yield f"{where}.stalenessAware", True, "false: synchronous updates are never stale"
