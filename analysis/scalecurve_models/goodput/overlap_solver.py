"""The objective of Pollux' step model and its minimum; see ``overlap``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_models.fitting.least_squares import Array

NAMES = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")
LEAST = 1e-8
GAMMA = (1.0, 10.0)
_STARTS = (1.1, 2.5, 8.0)
_ROUNDS = 10
_TIE = 1e-2  # weight of the penalties relative to squared errors while searching for a start: enough to break ties


@dataclass(frozen=True)
class Runs:
    """Workers, nodes and batch per worker of each point, as columns."""

    workers: Array
    nodes: Array
    batch: Array

    @classmethod
    def of(cls, runs: Sequence[tuple[int, int, float]]) -> Runs:
        columns = np.array(runs, dtype=np.float64).reshape(-1, 3)
        return cls(columns[:, 0], columns[:, 1], columns[:, 2])


Fixed = dict[int, tuple[float, str]]  # index of a fixed parameter -> its value and why


def times(values: Array, runs: Runs) -> tuple[Array, Array]:
    """Compute and step seconds (one micro-batch) of every run."""
    compute, network = _parts(values, runs)
    longest, gamma = np.maximum(compute, network), values[6]
    return compute, longest * ((compute / longest) ** gamma + (network / longest) ** gamma) ** (1 / gamma)


def slopes(values: Array, free: tuple[int, ...], runs: Runs) -> tuple[Array, Array]:
    """d log T_comp and d log T_step by the free parameters as they are fitted: logarithms, but γ; (runs, free)."""
    compute, network = _parts(values, runs)
    _, b_c, a_n, b_n, a_r, b_r, gamma = values
    further = np.maximum(runs.workers - 2, LEAST)
    between, within = runs.nodes > 1, (runs.nodes == 1) & (runs.workers > 1)
    by_compute = np.zeros((len(compute), len(NAMES)))
    by_compute[:, 0], by_compute[:, 1] = values[0] / compute, b_c * runs.batch / compute
    by_network = np.zeros_like(by_compute)
    for first, used, alpha, beta in ((2, between, a_n, b_n), (4, within, a_r, b_r)):
        by_network[:, first] = np.where(used, alpha / network, 0.0)
        by_network[:, first + 1] = np.where(used, beta * further / network, 0.0)
    longest = np.maximum(compute, network)
    c, n = (compute / longest) ** gamma, (network / longest) ** gamma
    share = c / (c + n)
    step = share[:, None] * by_compute + (1 - share)[:, None] * by_network
    weighted = share * np.log(compute / longest) + (1 - share) * np.log(network / longest)
    step[:, 6] = weighted / gamma - np.log(c + n) / gamma**2
    columns = list(free)
    return by_compute[:, columns], step[:, columns]


def _parts(values: Array, runs: Runs) -> tuple[Array, Array]:
    a_c, b_c, a_n, b_n, a_r, b_r, _ = values
    further = np.maximum(runs.workers - 2, LEAST)
    network = np.select(
        [runs.nodes > 1, runs.workers > 1], [a_n + b_n * further, a_r + b_r * further], LEAST + LEAST * LEAST
    )
    compute: Array = a_c + b_c * runs.batch
    return compute, network


def fix_parameters(runs: Runs, compute: Array) -> Fixed:
    """Parameters that are not identifiable, at the values that the authors' code fixes them at."""
    fixed: Fixed = {}
    if len(np.unique(runs.batch)) == 1:
        half = float(np.nanmean(compute)) / 2
        fixed[0] = (half, "a single batch per worker; fixed at half of the compute time")
    several, within = runs.nodes > 1, (runs.nodes == 1) & (runs.workers > 1)
    for used, first, where in ((several, 2, "on several nodes"), (within, 4, "with several workers on one node")):
        if not used.any():
            fixed[first] = fixed[first + 1] = (LEAST, f"no run {where}")
        elif not (runs.workers > 2).any():
            fixed[first + 1] = (LEAST, "no run with more than 2 workers")
    if not several.any() and not within.any():
        fixed[6] = (GAMMA[0], "no run with communication")
    return fixed


def minimize(
    runs: Runs, compute: Array, steps: Array, fixed: Fixed, free: tuple[int, ...], near: Array | None = None
) -> Array:
    """The parameters with the lowest objective, from several starts, or from ``near``, a solution of similar runs.

    A root mean square has no slope where a fit is perfect. Squared errors have; each sum of squares is weighted by its
    previous root, 1/(2 root), until the weights converge: then the slopes are those of the roots.
    """
    problem = _Problem(runs, compute, steps, fixed, free)
    starts = [problem.guess(gamma) for gamma in _STARTS] if near is None else [problem.guess(_STARTS[1]), near]
    best = min((problem.solve(problem.encode(start), (1.0, 1.0), _TIE) for start in starts), key=problem.objective)
    least, coded = problem.objective(best), best
    for _ in range(_ROUNDS):
        coded = problem.solve(coded, problem.root_weights(coded), 1.0)
        now = problem.objective(coded)
        if not now < least * (1 - 1e-6):
            break
        best, least = coded, now
    return problem.decode(best)


@dataclass(frozen=True)
class _Problem:
    """Parameters are coded as logarithms, except γ; fixed ones do not appear."""

    runs: Runs
    compute: Array
    steps: Array
    fixed: Fixed
    free: tuple[int, ...]

    def guess(self, gamma: float) -> Array:
        """Start with half of the compute time constant and a tenth of the step time network."""
        compute, step = float(np.nanmedian(self.compute)), float(np.median(self.steps))
        per_sample = compute / 2 / float(np.median(self.runs.batch))
        return np.array([compute / 2, per_sample, step / 10, step / 100, step / 10, step / 100, gamma])

    def encode(self, values: Array) -> Array:
        return np.array([values[i] if i == 6 else np.log(values[i]) for i in self.free])

    def decode(self, coded: Array) -> Array:
        values = np.zeros(len(NAMES))
        for index, (value, _) in self.fixed.items():
            values[index] = value
        for index, value in zip(self.free, coded, strict=True):
            values[index] = value if index == 6 else np.exp(value)
        return values

    def solve(self, start: Array, weights: tuple[float, float], tie: float) -> Array:
        """Weighted least squares of the errors of compute and step, with the penalties times ``tie``."""
        from scipy.optimize import least_squares

        # No step takes longer than a day.
        low = np.array([GAMMA[0] if index == 6 else np.log(LEAST) for index in self.free])
        high = np.array([GAMMA[1] if index == 6 else np.log(86_400.0) for index in self.free])
        found = least_squares(
            lambda coded: self._errors(coded, weights, tie),
            np.clip(start, low + 1e-6, high - 1e-6),
            jac=lambda coded: self._error_slopes(coded, weights, tie),
            bounds=(low, high),
            ftol=1e-10,
            xtol=1e-10,
            gtol=1e-12,
            max_nfev=60,
        )
        solution: Array = found.x
        return solution

    def objective(self, coded: Array) -> float:
        """The authors' own: roots of mean squared logarithmic errors, and the penalties."""
        values = self.decode(coded)
        penalties = self._penalties(values)
        return sum(self._roots(values)) + float(penalties @ penalties)

    def root_weights(self, coded: Array) -> tuple[float, float]:
        compute, step = (1 / (2 * max(root, 1e-9)) for root in self._roots(self.decode(coded)))
        return compute, step

    def _roots(self, values: Array) -> tuple[float, float]:
        compute, step = self._logs(values)
        return float(np.sqrt((compute**2).mean())), float(np.sqrt((step**2).mean()))

    def _errors(self, coded: Array, weights: tuple[float, float], tie: float) -> Array:
        values = self.decode(coded)
        parts = [e * (w / len(e)) ** 0.5 for e, w in zip(self._logs(values), weights, strict=True)]
        return np.concatenate([*parts, tie * self._penalties(values)])

    def _error_slopes(self, coded: Array, weights: tuple[float, float], tie: float) -> Array:
        values = self.decode(coded)
        compute, step = slopes(values, self.free, self.runs)
        both = compute[np.isfinite(self.compute)], step
        parts = [s * (w / len(s)) ** 0.5 for s, w in zip(both, weights, strict=True)]
        return np.concatenate([*parts, tie * self._penalty_slopes(values)])

    def _logs(self, values: Array) -> tuple[Array, Array]:
        compute, step = times(values, self.runs)
        known = np.isfinite(self.compute)
        return np.log(compute[known] / self.compute[known]), np.log(step / self.steps)

    def _penalties(self, values: Array) -> Array:
        _, _, a_n, b_n, a_r, b_r, gamma = values
        return np.array([1e-3**0.5 * (gamma - 1), 0.1 * b_n / a_n, 0.1 * b_r / a_r])

    def _penalty_slopes(self, values: Array) -> Array:
        _, between, within = self._penalties(values)
        all_ = np.zeros((3, len(NAMES)))
        all_[0, 6] = 1e-3**0.5
        all_[1, 2:4] = -between, between
        all_[2, 4:6] = -within, within
        return all_[:, list(self.free)]
