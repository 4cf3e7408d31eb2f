"""The scaling laws: speed-up S(N) over one worker, with a few parameters that are shares of its step.

- linear      S = N
- amdahl      S = 1 / (s + (1 - s)/N)                         G. M. Amdahl, AFIPS 1967
- gustafson   S = N - s (N - 1)                               J. L. Gustafson, CACM 31 (1988)
- usl         S = N / (1 + σ(N - 1) + κ N (N - 1))            N. J. Gunther, arXiv:0808.1431
- ring        T(N)/T(1) = 1 + ρ(1 - 1/N) + λ(N - 1)           bandwidth and latency of a ring all-reduce, weak scaling

T is the time of a step. A weak step does N times the work of one worker's step, so S = N T(1)/T(N). A strong step
divides the work: T(N)/T(1) = 1/N + ρ(1 - 1/N) + λ(N - 1), which is the curve of usl with σ = ρ and κ = λ.

Every law is linear in its parameters once it is turned around, for any baseline N0: with q = X(N)/X(N0) measured, the
parameters are the non-negative least squares solution of the rows that ``Form.rows`` gives.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scalecurve_api.spec.scaling import Mode
from scalecurve_models.fitting.least_squares import Array


@dataclass(frozen=True)
class Overhead:
    """S(N) = N / (1 + Σ parameter · term(N))."""

    name: str
    equation: str
    symbols: tuple[str, ...]
    terms: tuple[Callable[[Array], Array], ...]
    at_most: float = np.inf

    def speedup(self, values: Array, workers: Array) -> Array:
        gain: Array = workers / (1 + self._columns(workers) @ values)
        return gain

    def rows(self, workers: Array, baseline: float, gains: Array) -> tuple[Array, Array]:
        """Design and target with relative residuals: e(N) = r e(N0), e = N/S, r = (N/N0)/gain; divided by r."""
        r = workers / baseline / gains
        at_baseline = self._columns(np.array([baseline]))
        return (self._columns(workers) - r[:, None] * at_baseline) / r[:, None], (r - 1) / r

    def _columns(self, workers: Array) -> Array:
        if not self.terms:
            return np.zeros((len(workers), 0))
        return np.stack([term(workers) for term in self.terms], axis=1)


@dataclass(frozen=True)
class Gustafson:
    """S(N) = N - s (N - 1)."""

    name: str = "gustafson"
    equation: str = "S = N - s(N-1)"
    symbols: tuple[str, ...] = ("s",)
    at_most: float = 1.0

    def speedup(self, values: Array, workers: Array) -> Array:
        gain: Array = workers - values[0] * (workers - 1)
        return gain

    def rows(self, workers: Array, baseline: float, gains: Array) -> tuple[Array, Array]:
        """From N - s(N-1) = q (N0 - s(N0-1)); divided by q N0."""
        divisor = gains * baseline
        column = (workers - 1) - gains * (baseline - 1)
        return (column / divisor)[:, None], (workers - divisor) / divisor


ScalingLaw = Overhead | Gustafson


_OVERHEADS = (lambda n: n - 1, lambda n: n * (n - 1))
LINEAR = Overhead("linear", "S = N", (), ())
AMDAHL = Overhead("amdahl", "S = 1/(s + (1-s)/N)", ("s",), (lambda n: n - 1,), at_most=1.0)
GUSTAFSON = Gustafson()
USL = Overhead("usl", "S = N/(1 + σ(N-1) + κN(N-1))", ("sigma", "kappa"), _OVERHEADS)
RING = Overhead("ring", "T(N)/T(1) = 1 + ρ(1-1/N) + λ(N-1)", ("rho", "lambda"), (lambda n: 1 - 1 / n, lambda n: n - 1))
RING_STRONG = Overhead("ring", "T(N)/T(1) = 1/N + ρ(1-1/N) + λ(N-1)", ("rho", "lambda"), _OVERHEADS)


def laws_of(mode: Mode = Mode.weak) -> tuple[ScalingLaw, ...]:
    """All laws, fewest parameters first."""
    return (LINEAR, AMDAHL, GUSTAFSON, USL, RING if mode is Mode.weak else RING_STRONG)
