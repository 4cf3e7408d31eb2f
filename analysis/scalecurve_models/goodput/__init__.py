"""Pollux: how compute and communication overlap, and how much of the throughput is progress."""

from scalecurve_models.goodput.noise import (
    BestBatch,
    CriticalBatch,
    GradientNoise,
    best_batch,
    fit_critical_batch,
    noise_of_batches,
    noise_of_replicas,
    noise_of_scale,
    smoothed,
)
from scalecurve_models.goodput.overlap import OverlapFit, StepTime, fit_overlap

__all__ = [
    "BestBatch",
    "CriticalBatch",
    "GradientNoise",
    "OverlapFit",
    "StepTime",
    "best_batch",
    "fit_critical_batch",
    "fit_overlap",
    "noise_of_batches",
    "noise_of_replicas",
    "noise_of_scale",
    "smoothed",
]
