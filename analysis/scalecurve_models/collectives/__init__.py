"""Cost models of all-reduce algorithms: the α-β-γ table, fitted to measured message sizes and worker counts."""

from scalecurve_models.collectives.collective_fit import (
    CollectiveFit,
    JudgedCollective,
    LeftOut,
    Regime,
    Timed,
    fit_collective,
    judge_collective,
)
from scalecurve_models.collectives.comparison import (
    CollectiveComparison,
    asked_algorithms,
    compare_algorithms,
    timed_points,
)
from scalecurve_models.collectives.costs import (
    ALGORITHMS,
    HIERARCHICAL,
    Algorithm,
    Link,
    Shape,
    algorithm_of,
    cost,
    cost_of,
    hierarchical_cost,
    lower_bound,
)
from scalecurve_models.collectives.tables import collective_tables, cost_table

__all__ = [
    "ALGORITHMS",
    "HIERARCHICAL",
    "Algorithm",
    "CollectiveComparison",
    "CollectiveFit",
    "JudgedCollective",
    "LeftOut",
    "Link",
    "Regime",
    "Shape",
    "Timed",
    "algorithm_of",
    "asked_algorithms",
    "collective_tables",
    "compare_algorithms",
    "cost",
    "cost_of",
    "cost_table",
    "fit_collective",
    "hierarchical_cost",
    "judge_collective",
    "lower_bound",
    "timed_points",
]
