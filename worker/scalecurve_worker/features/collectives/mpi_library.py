"""The microbenchmarks over MPI: numpy arrays in host memory, started by mpirun. Needs no torch."""

from collections.abc import Callable
from importlib.metadata import version as version_of
from typing import Any

import numpy as np
import numpy.typing as npt

from scalecurve_api.features.collectives.fields import AllReduceWorkload, CollectivesWorkload, Microbenchmark, Payload
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.collectives.benchmark import Benchmark, TimedCall, check_nodes, granule_of, host_bytes
from scalecurve_worker.features.collectives.open_mpi import ask_for, confirm
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import identify
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.communicator import load_mpi
from scalecurve_worker.steps.timing import Clock, HostClock, UnixTime

Carried = Callable[[Any], object]


def operation(collective: Collective, mpi: Any) -> TimedCall:
    """Return the library's own operation, by whatever algorithm it chooses."""
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
    """Return an all-reduce by one algorithm or pattern."""
    carry = all_reduce_of(algorithm, mpi, per_node)
    return TimedCall(Collective.all_reduce, lambda sent, _: carry(sent), granule_of(algorithm, per_node))


def all_reduce_of(algorithm: AllReduce, mpi: Any, per_node: int) -> Carried:
    """Return what sums a message over all ranks; ``per_node`` consecutive ranks make a node."""
    if algorithm is AllReduce.parameter_server:
        return _server_all_reduce(mpi)
    if algorithm is AllReduce.hierarchical:
        return _hierarchical_all_reduce(mpi, per_node)
    in_place, add, comm = mpi.IN_PLACE, mpi.SUM, mpi.COMM_WORLD
    return lambda message: comm.Allreduce(in_place, message, add)


def _server_all_reduce(mpi: Any) -> Carried:
    comm, add = mpi.COMM_WORLD, mpi.SUM
    served = comm.Get_rank() == 0

    def carry(message: Any) -> None:
        comm.Reduce(mpi.IN_PLACE if served else message, message if served else None, add, root=0)
        comm.Bcast(message, root=0)

    return carry


def _hierarchical_all_reduce(mpi: Any, per_node: int) -> Carried:
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


Array = npt.NDArray[Any]


def run(trial: TrialSpec) -> None:
    """Measure every size of an all-reduce on this rank."""
    workload = trial.workload_as(AllReduceWorkload)
    algorithm, per_node = workload.all_reduce, trial.point.workers_per_node
    mpi, session, benchmark = _begin(trial, workload, algorithm)
    session.facts.options["allReduce"] = algorithm.value
    check_nodes(algorithm, session, per_node)
    benchmark.all_reduce(all_reduce_by(algorithm, mpi, per_node))
    session.finish()


def run_collectives(trial: TrialSpec) -> None:
    """Measure every size of each collective on this rank."""
    workload = trial.workload_as(CollectivesWorkload)
    mpi, session, benchmark = _begin(trial, workload, AllReduce.auto)
    benchmark.collectives([operation(kind, mpi) for kind in workload.collectives])
    session.finish()


def _begin(trial: TrialSpec, workload: Microbenchmark, algorithm: AllReduce) -> tuple[Any, Session, Benchmark]:
    elements = _elements(workload)
    ask_for(algorithm)
    mpi = load_mpi()
    _check_world(mpi)
    vendor, version = mpi.get_vendor()
    chosen = confirm(algorithm, vendor)
    session = Session()
    session.facts.backend = "mpi"
    session.facts.versions = {
        "mpi": f"{vendor} {'.'.join(map(str, version))}",
        "mpi4py": version_of("mpi4py"),
        "numpy": np.__version__,
    }
    session.facts.options = {
        "libraryParameters": chosen,
        "library": mpi.Get_library_version().strip("\0\n ")[:300],
    }
    return mpi, session, Benchmark(workload.sizes, MPILibrary(mpi, trial.seed), session, elements)


class MPILibrary:
    """Arrays of float32, sent by MPI."""

    element_bytes = 4
    copies = 3  # as it came, in its place, and what the library keeps of it

    def __init__(self, mpi: Any, seed: int) -> None:
        self._comm = mpi.COMM_WORLD
        self._random = np.random.default_rng(seed * 100_003 + self._comm.Get_rank())

    def available_bytes(self) -> int:
        return host_bytes(self._comm.Get_size())

    def message(self, count: int) -> Array:
        return np.empty(count, dtype=np.float32)

    def indices(self, begin: int, end: int) -> Array:
        return np.arange(begin, end)

    def random(self, count: int) -> Array:
        return self._random.standard_normal(count, dtype=np.float32)

    def clock(self, unix: UnixTime) -> Clock:
        return HostClock(unix)


def _elements(workload: Microbenchmark) -> list[int] | None:
    """Of a model's messages, where they are requested: the one thing here that takes torch."""
    if workload.sizes.payload is Payload.sizes:
        return None
    try:
        from scalecurve_worker.features.collectives.torch_library import gradient_elements
    except ModuleNotFoundError as error:
        raise WorkloadError(
            f"workload.sizes.payload: {workload.sizes.payload.value} needs torch to build workload.model, and torch "
            "is not installed here; expected sizes"
        ) from error
    return gradient_elements(workload)


def _check_world(mpi: Any) -> None:
    launched, joined = identify().world, mpi.COMM_WORLD.Get_size()
    if launched != joined:
        raise WorkloadError(
            f"workload.backend: mpirun started {launched} ranks, but MPI has {joined}: "
            f"mpirun and mpi4py's library ({' '.join(map(str, mpi.get_vendor()))}) do not match"
        )
