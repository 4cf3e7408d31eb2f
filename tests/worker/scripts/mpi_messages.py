"""So many all-reduces of so many elements by a named algorithm, and nothing else that sends."""

from __future__ import annotations

import sys

from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_worker.features.collectives.mpi_library import MPILibrary, all_reduce_of
from scalecurve_worker.features.collectives.open_mpi import ask_for
from scalecurve_worker.rendezvous.communicator import load_mpi

algorithm, times, count = AllReduce(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
ask_for(algorithm)
mpi = load_mpi()
all_reduce = all_reduce_of(algorithm, mpi, per_node=2)
message = MPILibrary(mpi, 0).random(count)
for _ in range(times):
    all_reduce(message)
