"""Horovod itself: whether it is here, joining it, and which library really adds up.

Written for 0.28.1, the last release; ``make horovod`` builds it. Horovod prints why its extension does not load and
goes on without it, so that is looked at here.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from scalebench_api.horovod import MISSING, carrier_of
from scalebench_api.workload import Workload
from scalebench_worker.failure import WorkloadError
from scalebench_worker.mpi import load as load_mpi

_ADDED_UP = re.compile(r'"(MPI|GLOO|NCCL|CCL|DDL)_ALLREDUCE"')
_TIMELINE = "HOROVOD_TIMELINE"
_PROBES, _PAUSE_S = 10, 0.1
_CARRIERS: dict[str, str] = {}
"""Kind of device -> what carries its sums: a process's second timeline stays empty."""


def load() -> Any:
    """``horovod.torch``, with its extension.

    Raises:
        WorkloadError: not installed, or built for another torch or Python.
    """
    try:
        importlib.import_module("horovod")
        # MPI first: the wheel knows the place of MPI's library in the environment that built it, and no other. And
        # Horovod ends an MPI that it began itself, and then cannot begin again.
        load_mpi()
        library = importlib.import_module("horovod.torch")
    except ImportError as error:
        raise WorkloadError(f"workload.program: {MISSING} ({error})") from error
    if not hasattr(library, "init"):
        raise WorkloadError(
            f"workload.program: Horovod does not load with torch {torch.__version__}, for the reason above; "
            "`make horovod` builds it for what is installed"
        )
    return library


def version() -> str:
    """The installed release."""
    return importlib.metadata.version("horovod")


def join(library: Any, workload: Workload, device: torch.device) -> str:
    """Join Horovod with the ranks that mpirun started; the library that carries its sums of this device's tensors.

    That is read from Horovod's own timeline of one all-reduce, for what is built in says only what could be. The
    timeline is written in a first life of Horovod, because one that could be started later costs time in every step.

    Raises:
        WorkloadError: a library that this build of Horovod does not have.
    """
    wanted = carrier_of(workload, device.type == "cuda")
    _check(library, wanted)
    # MPI counts and orders in any case, for mpirun started the ranks.
    os.environ.update(HOROVOD_CONTROLLER="mpi", HOROVOD_CPU_OPERATIONS="mpi")
    if workload.options.bucket_cap_mb is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(round(workload.options.bucket_cap_mb * (1 << 20)))
    if device.type not in _CARRIERS:
        _CARRIERS[device.type] = _look(library, device)
    library.init()
    carrier: str = library.broadcast_object(_CARRIERS[device.type], 0)
    return carrier


def _look(library: Any, device: torch.device) -> str:
    """The libraries in the timeline of an all-reduce, on rank 0, which alone writes one."""
    before = os.environ.get(_TIMELINE)
    with tempfile.TemporaryDirectory(prefix="scalebench-horovod-") as folder:
        timeline = Path(folder) / "timeline.json"
        os.environ[_TIMELINE] = str(timeline)
        library.init()
        # What its writer has not come to when Horovod ends is lost: seen once, on a busy machine.
        for index in range(_PROBES):
            library.allreduce(torch.ones(1024, device=device), name=f"scalebench.probe.{index}")
            time.sleep(_PAUSE_S)
        library.shutdown()
        found = sorted(set(_ADDED_UP.findall(timeline.read_text()))) if timeline.exists() else []
    os.environ.pop(_TIMELINE)
    if before is not None:
        os.environ[_TIMELINE] = before
    return "+".join(found).lower() or "unknown"


def _check(library: Any, wanted: str) -> None:
    built = {"mpi": library.mpi_built(), "nccl": bool(library.nccl_built())}
    if not built["mpi"]:
        raise WorkloadError("workload.program: this build of Horovod has no MPI, whose mpirun starts its ranks")
    if not built.get(wanted):
        has = ", ".join(name for name, there in built.items() if there)
        why = "; `make horovod` with CUDA's compiler (nvcc) on PATH builds it" if wanted == "nccl" else ""
        raise WorkloadError(f"workload.backend: {wanted} is not in this build of Horovod, which has {has}{why}")
