"""All-reduces composed of MPI's other collectives, over arrays in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalecurve_api.programs.collectives import AllReduce

Carried = Callable[[Any], None]


def all_reduce_of(algorithm: AllReduce, mpi: Any, per_node: int) -> Carried:
    """What adds a message up over all ranks; ``per_node`` of them, by number, make a node."""
    if algorithm is AllReduce.parameter_server:
        return _through_one(mpi)
    if algorithm is AllReduce.hierarchical:
        return _by_nodes(mpi, per_node)
    in_place, add, comm = mpi.IN_PLACE, mpi.SUM, mpi.COMM_WORLD
    return lambda message: comm.Allreduce(in_place, message, add)


def _through_one(mpi: Any) -> Carried:
    comm, add = mpi.COMM_WORLD, mpi.SUM
    served = comm.Get_rank() == 0

    def carry(message: Any) -> None:
        comm.Reduce(mpi.IN_PLACE if served else message, message if served else None, add, root=0)
        comm.Bcast(message, root=0)

    return carry


def _by_nodes(mpi: Any, per_node: int) -> Carried:
    """Reduce-scatter inside the node, all-reduce of each share across nodes, all-gather inside the node."""
    comm, add = mpi.COMM_WORLD, mpi.SUM
    within, across = comm.Split(comm.Get_rank() // per_node), comm.Split(comm.Get_rank() % per_node)
    share: Any = None

    def carry(message: Any) -> None:
        nonlocal share
        if share is None or share.size * per_node != message.size:
            share = message[: message.size // per_node].copy()
        within.Reduce_scatter_block(message, share, add)
        across.Allreduce(mpi.IN_PLACE, share, add)
        within.Allgather(share, message)

    return carry
