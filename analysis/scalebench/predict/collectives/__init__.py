"""Cost models of all-reduce algorithms: the α-β-γ table, fitted to measured message sizes and worker counts."""

from scalebench.predict.collectives.collective_fit import (
    CollectiveFit,
    JudgedCollective,
    LeftOut,
    Regime,
    Timed,
    fit_collective,
    judge_collective,
)
from scalebench.predict.collectives.comparison import CollectiveComparison, compare_algorithms, timed_points
from scalebench.predict.collectives.costs import (
    ALGORITHMS,
    HIERARCHICAL,
    Algorithm,
    Shape,
    algorithm_of,
    cost,
    hierarchical_cost,
    lower_bound,
)

__all__ = [
    "ALGORITHMS",
    "HIERARCHICAL",
    "Algorithm",
    "CollectiveComparison",
    "CollectiveFit",
    "JudgedCollective",
    "LeftOut",
    "Regime",
    "Shape",
    "Timed",
    "algorithm_of",
    "compare_algorithms",
    "cost",
    "fit_collective",
    "hierarchical_cost",
    "judge_collective",
    "lower_bound",
    "timed_points",
]
