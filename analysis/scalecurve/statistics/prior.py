"""What is known of a variance before it is seen.

The scaled inverse chi-square prior of a normal variance (A. Gelman and others, Bayesian Data Analysis, 3rd edition,
section 3.3), its two numbers fitted as G. K. Smyth does for genes (Statistical Applications in Genetics and Molecular
Biology 3, 2004). A difference over the spread that it gives is distributed as Student's t with its degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.statistics.spread import Spread


@dataclass(frozen=True)
class Prior:
    """A variance, and the degrees of freedom that this knowledge is worth."""

    variance: float
    degrees: float

    @property
    def spread(self) -> Spread:
        """What it says where nothing was seen."""
        return Spread(self.variance, self.degrees)

    def pooled(self, squares: float, degrees: float) -> Spread:
        """Pool it with a sum of squares on its degrees of freedom."""
        together = self.degrees + degrees
        return Spread((self.degrees * self.variance + squares) / together, together)


SESSIONS = Prior(0.009**2, 4.0)
"""Of the log of a session's throughput, over sessions of one machine or of equal ones.

Ten points on H100 and H200 servers were measured in three or four sessions each (docs/evidence): their standard
deviations are 0.02 to 1.8 %, 0.65 % pooled. Maximum likelihood makes that 0.20 % with 1.1 degrees of freedom, by which
two sessions differ by 2.7 % at 95 % and by 91 % at 99.9 %: ten points cannot tell so few degrees from more. So this is
chosen on the safe side: what one GPU differed by between H200 servers, with four degrees of freedom, which reach
farther at 95 % (3.5 %: 35 of the 36 pairs of sessions are nearer) and decide something beyond (11 % at 99.9 %).
tests/analysis/test_real_sessions.py fits it again.
"""


def most_likely(sums: Sequence[tuple[float, int]]) -> Prior:
    """Fit a prior to sums of squares with their degrees of freedom, by maximum likelihood.

    Each variance over the prior's is distributed as F; the two numbers of the prior maximize their likelihood.
    """
    from scipy.optimize import minimize  # importing scipy takes a tenth of a second: only once one is fitted
    from scipy.stats import f as distribution

    def cost(logs: Sequence[float]) -> float:
        degrees, variance = math.exp(min(logs[0], 7.0)), math.exp(logs[1])
        terms = (float(distribution.logpdf(s / d / variance, d, degrees)) - math.log(variance) for s, d in sums)
        return -math.fsum(terms)

    start = math.fsum(s for s, _ in sums) / math.fsum(d for _, d in sums)
    best = minimize(cost, [1.0, math.log(start)], method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-6})
    return Prior(math.exp(float(best.x[1])), math.exp(min(float(best.x[0]), 7.0)))
