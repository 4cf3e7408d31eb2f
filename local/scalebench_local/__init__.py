"""The engine for one machine: an experiment on its GPUs or shares of its cores, killed and resumed at will."""

from scalebench_local.engine import RunResult, run
from scalebench_local.errors import BadInput, EngineError, StorageError, Unavailable
from scalebench_local.progress import Pace, Progress
from scalebench_local.stop import StopRequest

__all__ = [
    "BadInput",
    "EngineError",
    "Pace",
    "Progress",
    "RunResult",
    "StopRequest",
    "StorageError",
    "Unavailable",
    "run",
]
