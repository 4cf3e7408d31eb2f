"""Which ScaleCurve this is: engine and worker each come with their own."""

from __future__ import annotations

import importlib.metadata

NOT_INSTALLED = "not installed"


def release() -> str:
    """Version of the distribution that runs here; ``not installed`` where only its source is there."""
    try:
        return importlib.metadata.version("scalecurve")
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED
