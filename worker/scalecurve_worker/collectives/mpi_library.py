"""``program: allreduce`` over MPI: numpy arrays in host memory, started by mpirun. Needs no torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from scalecurve_api.programs.allreduce import AllReduceWorkload, Payload
from scalecurve_api.programs.collectives import AllReduce
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.collectives.allreduce import Benchmark, check_nodes, granule_of, host_bytes
from scalecurve_worker.collectives.open_mpi import ask_for, confirm
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import identify
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.mpi import load
from scalecurve_worker.steps.timing import Clock, HostClock, UnixTime

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


Array = npt.NDArray[Any]


def run(trial: TrialSpec) -> None:
    """Measure every size on this rank."""
    workload = trial.workload_as(AllReduceWorkload)
    elements = _elements(workload)
    ask_for(workload.all_reduce)
    mpi = load()
    _check_world(mpi)
    vendor, version = mpi.get_vendor()
    chosen = confirm(workload.all_reduce, vendor)
    session = Session()
    session.facts.backend = "mpi"
    session.facts.versions = {
        "mpi": f"{vendor} {'.'.join(map(str, version))}",
        "mpi4py": _mpi4py(),
        "numpy": np.__version__,
    }
    session.facts.options = {
        "allReduce": workload.all_reduce.value,
        "libraryParameters": chosen,
        "library": mpi.Get_library_version().strip("\0\n ")[:300],
    }
    check_nodes(workload.all_reduce, session, trial.point.workers_per_node)
    library = MPILibrary(mpi, trial.seed, workload.all_reduce, trial.point.workers_per_node)
    Benchmark(workload.sizes, library, session, elements).run()


class MPILibrary:
    """Arrays of float32, added up by MPI over all ranks."""

    def __init__(self, mpi: Any, seed: int, algorithm: AllReduce = AllReduce.auto, per_node: int = 1) -> None:
        self._comm = mpi.COMM_WORLD
        self._carry = all_reduce_of(algorithm, mpi, per_node)
        self.granule = granule_of(algorithm, per_node)
        self._random = np.random.default_rng(seed * 100_003 + self._comm.Get_rank())

    element_bytes = 4
    copies = 3  # as it came, in its place, and what the library keeps of it

    def available_bytes(self) -> int:
        return host_bytes(self._comm.Get_size())

    def message(self, count: int) -> Array:
        return np.empty(count, dtype=np.float32)

    def indices(self, begin: int, end: int) -> Array:
        return np.arange(begin, end)

    def random(self, count: int) -> Array:
        return self._random.standard_normal(count, dtype=np.float32)

    def all_reduce(self, message: Array) -> None:
        self._carry(message)

    def clock(self, unix: UnixTime) -> Clock:
        return HostClock(unix)


def _elements(workload: AllReduceWorkload) -> list[int] | None:
    """Of a model's messages, where they are asked for: the one thing here that takes torch."""
    if workload.sizes.payload is Payload.sizes:
        return None
    try:
        from scalecurve_worker.collectives.payload import gradient_elements
    except ModuleNotFoundError as error:
        raise WorkloadError(
            f"workload.sizes.payload: {workload.sizes.payload.value} needs torch to build workload.model, and torch "
            "is not installed here; allowed here: sizes"
        ) from error
    return gradient_elements(workload)


def _check_world(mpi: Any) -> None:
    launched, joined = identify().world, mpi.COMM_WORLD.Get_size()
    if launched != joined:
        raise WorkloadError(
            f"workload.backend: mpirun started {launched} ranks, but MPI has {joined}: "
            f"mpirun and mpi4py's library ({' '.join(map(str, mpi.get_vendor()))}) do not match"
        )


def _mpi4py() -> str:
    import mpi4py

    return str(mpi4py.__version__)
