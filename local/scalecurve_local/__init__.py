"""The engine for one machine: an experiment on its GPUs or shares of its cores, killed and resumed at will."""

from scalecurve_local.engine import RunResult
from scalecurve_local.errors import EngineError, InputError, StorageError, UnavailableError
from scalecurve_local.execution.forking.client import ForkServer
from scalecurve_local.progress import Pace, RunProgress
from scalecurve_local.session import RunRequest, prepare, run, run_in_turns
from scalecurve_local.stop import StopRequest

__all__ = [
    "EngineError",
    "ForkServer",
    "InputError",
    "Pace",
    "RunProgress",
    "RunRequest",
    "RunResult",
    "StopRequest",
    "StorageError",
    "UnavailableError",
    "prepare",
    "run",
    "run_in_turns",
]
