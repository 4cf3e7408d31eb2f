"""What two measured worker counts leave open: every way in which the scaling loss may continue.

One count beside the baseline tells how much was lost there, not how the loss continues: any law with one parameter
passes through it exactly. The named laws are the corners of what is possible: the loss stays constant (Gustafson),
grows with N (Amdahl, the latency of a ring) or with N² (what usl adds). Half of the draws follow one of these, half
mix them in every proportion, so that a prediction is as wide as the measurements leave it.
"""

from collections.abc import Callable

import numpy as np

from scalecurve_models.fitting.least_squares import Array

_TERMS: tuple[Callable[[Array | float], Array | float], ...] = (
    lambda n: 1 - 1 / n,
    lambda n: n - 1,
    lambda n: n * (n - 1),
)
_ALONE = 0.5
_LEAST = 1e-9


def draw_rates(
    baseline: int, base_rates: Array, other: int, other_rates: Array, workers: int, rng: np.random.Generator
) -> Array:
    """Draws of samples/s at ``workers`` from draws at two measured counts, ``baseline`` < ``other``.

    With e(N) = N X(1)/X(N) = 1 + θ Σ w t(N), w one of the terms or any mixture, and θ such that the curve passes
    through both counts. A better than ideal speed-up between them is not extrapolated.
    """
    draws, ways = len(other_rates), len(_TERMS)
    alone = np.eye(ways)[rng.integers(0, ways, draws)]
    shares = np.where(rng.random((draws, 1)) < _ALONE, alone, rng.dirichlet(np.ones(ways), draws))
    here, at_base = (
        sum(shares[:, i] * term(float(n)) / term(float(other)) for i, term in enumerate(_TERMS))
        for n in (workers, baseline)
    )
    lost = (other / baseline) / (other_rates / base_rates)
    theta = np.maximum(lost - 1, 0) / np.maximum(1 - lost * at_base, _LEAST)
    rates: Array = other_rates * workers / other * (1 + theta) / (1 + theta * here)
    return rates
