"""Shared by the tests of collectives."""

import numpy as np

from scalecurve_models.collectives.collective_fit import TimedAllReduce
from scalecurve_models.collectives.costs import ALGORITHMS, LinkCost, RankGroup, cost

A, B, G = 3e-6, 2e-10, 5e-11


SIZES = [8 * 4**i for i in range(13)]


def points(name, ranks, sizes, alpha=A, beta=B, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    algorithm = ALGORITHMS[name]
    return [
        TimedAllReduce(
            RankGroup(n),
            size,
            float(cost(algorithm, RankGroup(n), size, LinkCost(alpha, beta)) * np.exp(noise * rng.normal())) or 1.0,
        )
        for n in ranks
        for size in sizes
    ]
