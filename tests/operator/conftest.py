"""A real API server for the tests that ask for one; tools/devcluster brings it up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.devcluster import toolchain
from tools.devcluster.tier import Tier, lacking

MPI, OTHERS = "mpi-operator-crds", ("training-operator-crds", "jobset-crds")
WEBHOOKS = ("training-operator", "jobset")


@pytest.fixture(scope="package")
def tier() -> Iterator[Tier]:
    """A control plane with the job kinds' CRDs and four nodes of eight GPUs, on which no pod ever runs.

    The webhooks of the job operators are there if these are built, which `make test` does not do. Skips, with the
    reason, where no control plane can be had.
    """
    if missing := toolchain.missing([MPI, *OTHERS]):
        pytest.skip(f"not built: {', '.join(missing)}; `make cluster-tools` builds them")
    if why := lacking((), kwok=False):
        pytest.skip(why)
    webhooks = () if lacking(WEBHOOKS, kwok=False) else WEBHOOKS
    # Of mpi-operator only the CRD: it checks nothing when a job is created.
    crds = [toolchain.built(name) for name in (MPI, *(() if webhooks else OTHERS))]
    with Tier(operators=webhooks, kwok=False, crds=crds) as running:
        running.add_nodes(4)
        yield running
