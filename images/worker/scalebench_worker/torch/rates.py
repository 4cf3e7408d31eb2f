"""The worker's rule of learning rates, under the name that the torch program knows."""

from scalebench_worker.rates import changes, rate_at

__all__ = ["changes", "rate_at"]
