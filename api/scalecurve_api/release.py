"""The version of ScaleCurve: engine and worker each have their own."""

import importlib.metadata

NOT_INSTALLED = "not installed"


def release() -> str:
    """Version of the installed distribution, or ``not installed``."""
    try:
        return importlib.metadata.version("scalecurve")
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED
