"""The value of a larger batch: gradient noise and statistical efficiency.

S. McCandlish et al., "An Empirical Model of Large-Batch Training" (arXiv:1812.06162): B_simple = tr(Σ)/|G|², and with a
batch of B steps and samples to a target grow as S/S_min = 1 + B_crit/B and E/E_min = 1 + B/B_crit. Qiao et al., Pollux
(OSDI 2021): a sample in a batch of M progresses (B_simple + M0)/(B_simple + M) times as far as one in a batch of M0.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalecurve_models.fitting.least_squares import (
    NOT_IDENTIFIABLE,
    Parameter,
    SumFit,
    fit_sum,
    positive_array,
    require_points,
    same_length,
)

MODEL = "gradient noise"


def statistical_efficiency(noise_scale: float, reference: float, batch: float) -> float:
    """Progress of a sample in a batch of this size, relative to one in a ``reference`` batch: (B + M0)/(B + M).

    Raises FitError for numbers that are not positive.
    """
    positive_array(MODEL, "noise scale and batches", [noise_scale, reference, batch])
    return (noise_scale + reference) / (noise_scale + batch)


def fit_critical_batch(batches: Sequence[float], steps: Sequence[float]) -> SumFit:
    """``s_min`` and ``b_crit`` from the steps that runs of different batch sizes took to the same loss or accuracy.

    S = S_min (1 + B_crit/B). Raises FitError for fewer than two different batches, or numbers that are not positive.
    """
    b, s = positive_array(MODEL, "batches", batches), positive_array(MODEL, "steps", steps)
    same_length(MODEL, {"batches": b, "steps": s})
    require_points(MODEL, len(set(b.tolist())), 2, "different batches")
    fit = fit_sum([np.ones_like(b), 1 / b], s, b, s_min="steps", product="samples")
    s_min, product = fit.parameters
    return replace(fit, parameters=(s_min, _ratio(product, s_min)))


def _ratio(product: Parameter, s_min: Parameter) -> Parameter:
    """B_crit = (S_min B_crit)/S_min, its interval from the ends of both: wider than need be."""
    if not product.value or not s_min.value:
        why = "the larger batch saved no step" if not product.value else "no floor"
        return Parameter("b_crit", unit="samples", note=f"{NOT_IDENTIFIABLE}: {why}")
    low = high = None
    if product.low is not None and s_min.high:
        low = product.low / s_min.high
    if product.high is not None and s_min.low is not None:
        high = product.high / s_min.low if s_min.low > 0 else math.inf
    return Parameter("b_crit", product.value / s_min.value, low, high, "samples", product.note)
