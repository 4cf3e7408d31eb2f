"""A real API server for the tests that ask for one; tools/devcluster brings it up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.devcluster import toolchain
from tools.devcluster.tier import Tier, lacking


@pytest.fixture(scope="session")
def tier() -> Iterator[Tier]:
    """A control plane with the job kinds' CRDs and webhooks and four nodes of eight GPUs, on which no pod ever runs.

    Skips, with the reason, where none can be had.
    """
    if why := lacking(("mpi", "training", "jobset"), kwok=False):
        pytest.skip(why)
    # Of mpi-operator only the CRD: it checks nothing when a job is created.
    mpi_jobs = toolchain.source_file("mpi-operator", "kubeflow.org_mpijobs.yaml")
    with Tier(operators=("training", "jobset"), kwok=False, crds=(mpi_jobs,)) as running:
        running.add_nodes(4)
        yield running
