"""Loads Horovod, joins it, and finds out which library carries its all-reduce.

Written for 0.28.1, the last release; ``make horovod`` builds it, for torch, TensorFlow or both. Neither is imported
here: in one process they end it. Horovod prints why its extension for torch does not load and goes on without it, so
that is looked at here.
"""

import importlib
import importlib.metadata
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from scalecurve_api.features.horovod.fields import MISSING, HorovodWorkload
from scalecurve_api.features.tensorflow.fields import TensorFlowWorkload
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.rendezvous.communicator import load_mpi

_ADDED_UP = re.compile(r'"(MPI|GLOO|NCCL|CCL|DDL)_ALLREDUCE"')
_TIMELINE = "HOROVOD_TIMELINE"
_PROBES, _PAUSE_S = 10, 0.1
READ_FROM: dict[str, Any] = {"backendReadFrom": "Horovod's timeline of an all-reduce before the first step"}
# On GPUs or not -> what carries sums there: a process's second timeline stays empty.
_CARRIERS: dict[bool, str] = {}


def load(framework: ModuleType, field: str) -> Any:
    """Load ``horovod.torch`` or ``horovod.tensorflow``, for the framework that has been imported, with its extension.

    ``field`` of the experiment is what asks for it.
    """
    name = framework.__name__
    try:
        importlib.import_module("horovod")
        # MPI first: the wheel knows the place of MPI's library in the environment that built it, and no other. And
        # Horovod ends an MPI that it began itself, and then cannot begin again.
        load_mpi()
    except ImportError as error:
        raise WorkloadError(f"{field}: {MISSING} ({error})") from error
    why, library = "for the reason above", None
    try:
        library = importlib.import_module(f"horovod.{name}")
    except Exception as error:  # TensorFlow's own, where the extension is for another version
        why = (str(error) or type(error).__name__).splitlines()[0]
    if not hasattr(library, "init"):
        raise WorkloadError(
            f"{field}: Horovod does not load with {name} {framework.__version__}, {why}; "
            "`make horovod` builds it for what is installed"
        )
    return library


def version() -> str:
    """Return the installed release."""
    return importlib.metadata.version("horovod")


def join(
    library: Any, workload: HorovodWorkload | TensorFlowWorkload, on_gpu: bool, probe: Callable[[str], object]
) -> str:
    """Join Horovod with the ranks that mpirun started; the library that carries its sums on this device.

    That is read from Horovod's own timeline of ``probe``, an all-reduce of this name on the device, for what is built
    in says only what could be. The timeline is written in a first life of Horovod, because one that could be started
    later costs time in every step.
    """
    _check(library, str(workload.carrier(on_gpu)))
    # MPI counts and orders in any case, for mpirun started the ranks.
    os.environ.update(HOROVOD_CONTROLLER="mpi", HOROVOD_CPU_OPERATIONS="mpi")
    if workload.options.bucket_cap_mb is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(round(workload.options.bucket_cap_mb * (1 << 20)))
    if on_gpu not in _CARRIERS:
        _CARRIERS[on_gpu] = _look(library, probe)
    library.init()
    carrier: str = library.broadcast_object(_CARRIERS[on_gpu], 0)
    return carrier


def _look(library: Any, probe: Callable[[str], object]) -> str:
    """The libraries in the timeline of an all-reduce, on rank 0, which alone writes one."""
    before = os.environ.get(_TIMELINE)
    with tempfile.TemporaryDirectory(prefix="scalecurve-horovod-") as folder:
        timeline = Path(folder) / "timeline.json"
        os.environ[_TIMELINE] = str(timeline)
        library.init()
        # What its writer has not come to when Horovod ends is lost: seen once, on a busy machine.
        for index in range(_PROBES):
            probe(f"scalecurve.probe.{index}")
            time.sleep(_PAUSE_S)
        library.shutdown()
        libraries = sorted(set(_ADDED_UP.findall(timeline.read_text()))) if timeline.exists() else []
    os.environ.pop(_TIMELINE)
    if before is not None:
        os.environ[_TIMELINE] = before
    return "+".join(libraries).lower() or "unknown"


def _check(library: Any, carrier: str) -> None:
    built = {"mpi": library.mpi_built(), "nccl": bool(library.nccl_built())}
    if not built["mpi"]:
        raise WorkloadError("workload.program: this build of Horovod lacks MPI, which starts its ranks")
    if not built.get(carrier):
        has = ", ".join(name for name, there in built.items() if there)
        why = "; `make horovod` with CUDA's compiler (nvcc) on PATH builds it" if carrier == "nccl" else ""
        raise WorkloadError(f"workload.backend: {carrier} is not in this build of Horovod; it has {has}{why}")
