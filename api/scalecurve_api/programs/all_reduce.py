"""The algorithms of all-reduce, and which of them each collective library offers."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

from scalecurve_api.problem import Problem, one_of, unsupported
from scalecurve_api.programs.workload import Backend, DeviceType, Workload


class AllReduce(StrEnum):
    """The all-reduce algorithm of the collective library, or a pattern composed of its other collectives."""

    auto = "auto"
    ring = "ring"
    tree = "tree"
    recursive_doubling = "recursive-doubling"
    rabenseifner = "rabenseifner"
    parameter_server = "parameter-server"
    hierarchical = "hierarchical"


PATTERNS = (AllReduce.parameter_server, AllReduce.hierarchical)
"""Composed of the library's other collectives by ``program: allreduce``, whatever the library."""

MPI_BACKENDS = Literal[Backend.auto, Backend.nccl, Backend.mpi]
"""What may carry the sums of a program whose ranks MPI has started, where gloo is not tried."""

_OFFERED = {
    Backend.nccl: (AllReduce.auto, AllReduce.ring, AllReduce.tree),
    Backend.gloo: (AllReduce.auto, AllReduce.ring),
    Backend.mpi: (AllReduce.auto, AllReduce.ring, AllReduce.recursive_doubling, AllReduce.rabenseifner, AllReduce.tree),
}


def resolved_backend(backend: Backend, on_gpu: bool, on_cpu: Backend = Backend.gloo) -> Backend:
    """The library that carries the sums: the one that is named; of ``auto``, NCCL on GPUs and ``on_cpu`` on CPUs."""
    if backend is not Backend.auto:
        return backend
    return Backend.nccl if on_gpu else on_cpu


def algorithm_problem(workload: Workload, algorithm: AllReduce) -> Iterator[Problem]:
    """Report an algorithm that the workload's library does not have."""
    backend = resolved_backend(workload.backend, workload.device is not DeviceType.cpu)
    offered = _OFFERED[backend]
    if algorithm not in offered:
        where = f"with {backend}" + (", only with program allreduce over mpi" if backend is Backend.nccl else "")
        yield workload.problem("allReduce", unsupported(where, one_of(offered)))
