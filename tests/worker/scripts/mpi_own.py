"""A user's script under mpirun: MPI's world, the SDK, and much output from every rank."""

from __future__ import annotations

import os

import scalecurve_worker as scalecurve

bench = scalecurve.attach()
while bench.step(4):
    print("." * 900, flush=True)
if os.environ.get("FAIL") == os.environ["OMPI_COMM_WORLD_RANK"]:
    raise RuntimeError("lost a link")
bench.finish("same")
