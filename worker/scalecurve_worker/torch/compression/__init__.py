"""Gradient compression under DDP: ``compress`` registers the hook that is asked for."""

from scalecurve_worker.torch.compression.register import compress

__all__ = ["compress"]
