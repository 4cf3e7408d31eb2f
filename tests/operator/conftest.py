"""A real API server for the tests that ask for one; the tools of tests/cluster bring it up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CLUSTER = Path(__file__).parent.parent / "cluster"


@pytest.fixture(scope="session")
def tier() -> Iterator[Any]:
    """A control plane with the job kinds' CRDs and webhooks and four nodes of eight GPUs, on which no pod ever runs.

    Skips, with the reason, where none can be had.
    """
    sys.path.append(str(CLUSTER))
    import toolchain
    from tier import Tier, lacking

    if why := lacking(kwok=False):
        pytest.skip(why)
    # Of mpi-operator only the CRD: it checks nothing when a job is created.
    mpi_jobs = toolchain.source_file("mpi-operator", "kubeflow.org_mpijobs.yaml")
    with Tier(operators=("training",), kwok=False, crds=(mpi_jobs,)) as running:
        running.add_nodes(4)
        yield running
