"""Kubernetes quantities: ``scalebench_api.quantity``, which the command line reads them with too."""

from scalebench_api.quantity import times, value

__all__ = ["times", "value"]
