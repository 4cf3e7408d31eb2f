"""The statistics of Scalebench: intervals, comparisons and detectors. Pure functions, numbers in, dataclasses out."""

from scalebench.statistics.autocorrelation import Autocorrelation, autocorrelation
from scalebench.statistics.comparison import Change, changed, changes, holm
from scalebench.statistics.detectors import (
    Drift,
    SlowRanks,
    Stragglers,
    WarmUp,
    drift,
    slow_ranks,
    stragglers,
    warm_up,
)
from scalebench.statistics.estimate import Estimate, Method, RepetitionTotals
from scalebench.statistics.intervals import difference, efficiency, ratio, throughput
from scalebench.statistics.modes import Bimodality, bimodality

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
