"""Shared by the tests of goodput."""

import numpy as np

from scalecurve_models.goodput.overlap import StepTime
from scalecurve_models.goodput.overlap_solver import Runs, times

TRUTH = np.array([0.01, 0.002, 0.03, 0.001, 0.008, 0.0005, 3.0])


RUNS = [
    *((1, 1, m) for m in (16, 32, 64)),
    *((r, 1, m) for r in (2, 4) for m in (16, 64)),
    *((r, 2, m) for r in (4, 8) for m in (16, 64)),
    (16, 4, 32),
    (32, 8, 32),
]


def measured(values=TRUTH, runs=RUNS, noise=0.0, seed=0, compute=True):
    rng = np.random.default_rng(seed)
    computes, steps = times(values, Runs.of(runs))
    factors = np.exp(noise * rng.standard_normal((2, len(runs))))
    return [
        StepTime(w, n, m, float(s), float(c) if compute else None)
        for (w, n, m), s, c in zip(runs, steps * factors[0], computes * factors[1], strict=True)
    ]
