"""The statistics of ScaleCurve: intervals, comparisons and detectors. Pure functions, numbers in, dataclasses out."""

from scalecurve.statistics.autocorrelation import Autocorrelation, autocorrelation
from scalecurve.statistics.comparison import Change, changed, changes, holm
from scalecurve.statistics.detectors import (
    Drift,
    SlowRanks,
    Stragglers,
    WarmUp,
    drift,
    slow_ranks,
    stragglers,
    warm_up,
)
from scalecurve.statistics.estimate import Estimate, Method, RepetitionTotals
from scalecurve.statistics.intervals import difference, efficiency, ratio, throughput
from scalecurve.statistics.modes import Bimodality, bimodality

__all__ = [
    "Autocorrelation",
    "Bimodality",
    "Change",
    "Drift",
    "Estimate",
    "Method",
    "RepetitionTotals",
    "SlowRanks",
    "Stragglers",
    "WarmUp",
    "autocorrelation",
    "bimodality",
    "changed",
    "changes",
    "difference",
    "drift",
    "efficiency",
    "holm",
    "ratio",
    "slow_ranks",
    "stragglers",
    "throughput",
    "warm_up",
]
