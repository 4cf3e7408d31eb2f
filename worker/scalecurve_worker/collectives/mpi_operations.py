"""Collectives of MPI, called with what this rank sends and room for what it gets."""

from collections.abc import Callable
from typing import Any

from scalecurve_api.programs.collective_kinds import Collective
from scalecurve_api.programs.collectives import AllReduce
from scalecurve_worker.collectives.benchmark import TimedCall, granule_of

Carried = Callable[[Any], object]


def operation(collective: Collective, mpi: Any) -> TimedCall:
    """The library's own, as it chooses to do it."""
    comm, in_place, add = mpi.COMM_WORLD, mpi.IN_PLACE, mpi.SUM
    rank, world = comm.Get_rank(), comm.Get_size()
    after, before = (rank + 1) % world, (rank - 1) % world
    carried: dict[Collective, Callable[[Any, Any], object]] = {
        Collective.all_reduce: lambda sent, _: comm.Allreduce(in_place, sent, add),
        Collective.all_gather: comm.Allgather,
        Collective.reduce_scatter: lambda sent, received: comm.Reduce_scatter_block(sent, received, add),
        Collective.all_to_all: comm.Alltoall,
        Collective.broadcast: lambda sent, _: comm.Bcast(sent, root=0),
        Collective.send_recv: lambda sent, received: comm.Sendrecv(sent, after, recvbuf=received, source=before),
    }
    return TimedCall(collective, carried[collective], world if collective.shared_out else 1)


def all_reduce_by(algorithm: AllReduce, mpi: Any, per_node: int) -> TimedCall:
    """An all-reduce by one algorithm or pattern."""
    carry = all_reduce_of(algorithm, mpi, per_node)
    return TimedCall(Collective.all_reduce, lambda sent, _: carry(sent), granule_of(algorithm, per_node))


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
