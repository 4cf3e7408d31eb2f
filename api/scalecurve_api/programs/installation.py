"""Whether this Python has the libraries that a program needs, and the message for one that it lacks."""

import importlib.util

_EXTRAS = {"torch": "torch", "TensorFlow": "tensorflow", "mpi4py": "mpi"}
"""Library -> the extra of this project that installs it."""


def is_installed(library: str) -> bool:
    """Look for a library without importing it."""
    return importlib.util.find_spec(library) is not None


def lacking(field: str, value: str, library: str) -> str:
    """Say that the value of a field of the workload needs a library that is not installed."""
    install = f" (pip install -e '.[{_EXTRAS[library]}]' in the clone)" if library in _EXTRAS else ""
    return f"spec.workload.{field}: {value} needs {library}, which is not installed here{install}"
