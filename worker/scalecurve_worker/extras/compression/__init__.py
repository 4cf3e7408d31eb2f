"""Gradient compression under DDP: ``compress`` registers the hook that is asked for."""

from scalecurve_worker.extras.compression.registration import compress

__all__ = ["compress"]
