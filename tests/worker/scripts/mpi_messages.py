"""So many all-reduces of so many elements by a named algorithm, and nothing else that sends."""

from __future__ import annotations

import sys

from scalecurve_api.programs.collectives import AllReduce
from scalecurve_worker.collectives.mpi_library import MPILibrary
from scalecurve_worker.collectives.open_mpi import ask_for
from scalecurve_worker.rendezvous.mpi import load

algorithm, times, count = AllReduce(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
ask_for(algorithm)
mpi = load()
library = MPILibrary(mpi, 0, algorithm, per_node=2)
message = library.random(count)
for _ in range(times):
    library.all_reduce(message)
