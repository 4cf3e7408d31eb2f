"""Which all-reduce each collective library offers, and what starts the ranks that use it."""

from __future__ import annotations

from collections.abc import Iterator

from scalecurve_api.programs.workload import (
    AllReduce,
    Backend,
    Device,
    Launcher,
    Program,
    Strategy,
    Workload,
)

PATTERNS = (AllReduce.parameter_server, AllReduce.hierarchical)
"""Composed of the library's other collectives by ``program: allreduce``, whatever the library."""

_OFFERED = {
    Backend.nccl: (AllReduce.auto, AllReduce.ring, AllReduce.tree),
    Backend.gloo: (AllReduce.auto, AllReduce.ring),
    Backend.mpi: (
        AllReduce.auto,
        AllReduce.ring,
        AllReduce.recursive_doubling,
        AllReduce.rabenseifner,
        AllReduce.tree,
    ),
}


def over_mpi(workload: Workload) -> bool:
    """Whether MPI itself carries the program's messages: from host memory, by ranks that mpirun started."""
    return workload.program is Program.allreduce and workload.backend is Backend.mpi


def over_horovod(workload: Workload) -> bool:
    """Whether Horovod carries gradients, between ranks that mpirun started."""
    with_tensorflow = workload.program is Program.tensorflow and workload.strategy is Strategy.horovod
    return workload.program is Program.horovod or with_tensorflow


def launcher_of(workload: Workload) -> Launcher:
    """The launcher that is named, or the program's own."""
    if workload.launcher is not None:
        return workload.launcher
    if over_mpi(workload) or over_horovod(workload):
        return Launcher.mpirun
    return Launcher.processes if workload.program in (Program.custom, Program.tensorflow) else Launcher.torchrun


def illegal_collectives(workload: Workload, workers: int, nodes: int) -> Iterator[tuple[str, object, str]]:
    """Yield ``(field, given, what is allowed)`` for a library asked for what it has not."""
    yield from _algorithm(workload, workers, nodes)
    if over_mpi(workload):
        yield from _mpi(workload)


def _algorithm(workload: Workload, workers: int, nodes: int) -> Iterator[tuple[str, object, str]]:
    asked, program, backend = workload.all_reduce, workload.program, workload.backend
    if program in (Program.custom, Program.horovod) or asked is AllReduce.auto:
        return
    if program is Program.tensorflow:
        allowed = "auto: TensorFlow takes workload.communication, and Horovod what its library has"
        yield "workload.allReduce", asked.value, allowed
        return
    if asked in PATTERNS:
        if program is not Program.allreduce:
            yield "workload.allReduce", asked.value, "goes with program allreduce only"
        elif asked is AllReduce.hierarchical and workers > 1 and nodes == 1:
            yield (
                "workload.allReduce",
                asked.value,
                "a layout of several nodes (spec.placement): inside a node, then across",
            )
        return
    if backend is Backend.auto:
        # Settled on the machine: NCCL on GPUs, gloo on CPUs.
        backend = Backend.gloo if workload.device is Device.cpu else Backend.nccl
    offered = _OFFERED[backend]
    if asked not in offered:
        names = [each.value for each in offered]
        why = {
            Backend.gloo: f"{' or '.join(names)}: gloo on CPUs has no {asked.value} all-reduce",
            Backend.nccl: f"{', '.join(names)} with NCCL; {asked.value} goes with program allreduce, backend mpi",
        }
        yield "workload.allReduce", asked.value, why[backend]


def _mpi(workload: Workload) -> Iterator[tuple[str, object, str]]:
    if launcher_of(workload) is not Launcher.mpirun:
        yield "workload.launcher", launcher_of(workload).value, "mpirun with backend mpi: it starts MPI's ranks"
    if workload.device is Device.gpu:
        yield "workload.device", "gpu", "cpu or auto with backend mpi: its messages lie in host memory"
    if workload.sizes.dtype != "float32":
        yield "workload.sizes.dtype", workload.sizes.dtype, "float32 with backend mpi: MPI adds up no 16-bit numbers"
