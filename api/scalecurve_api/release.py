"""The version of ScaleCurve: engine and worker each have their own."""

import importlib.metadata
from functools import cache

NOT_INSTALLED = "not installed"


@cache  # the operator names it in every job, and finding it parses a file
def release() -> str:
    """Version of the installed distribution, or ``not installed``."""
    try:
        return importlib.metadata.version("scalecurve")
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED
