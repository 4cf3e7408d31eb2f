"""One scaling law fitted to one curve, with intervals for its parameters and its predictions.

The law passes through the baseline by definition, S(N0) = 1; the baseline's noise enters every interval. Repeated
worker counts (repetitions) inform the noise, not the shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.statistics.spread import student_quantile
from scalecurve_models.fitting.least_squares import (
    LEVEL,
    Array,
    FitError,
    LinearFit,
    Parameter,
    Prediction,
    log_interval,
    nonnegative,
    positive_array,
    require_points,
    same_length,
)
from scalecurve_models.laws.definitions import ScalingLaw

_NUDGE = 1e-6


@dataclass(frozen=True)
class LawFit:
    """A law through one curve. ``residuals`` are predicted/measured - 1 by point, the baseline's own left out.

    ``values`` are the parameters in the order of ``form.symbols``; ``exact`` is True where there are as many
    parameters as worker counts beside the baseline, so that the shape itself was not tested.
    """

    form: ScalingLaw
    baseline: int
    baseline_throughput: float
    values: Array
    parameters: tuple[Parameter, ...]
    workers: tuple[int, ...]
    residuals: tuple[float, ...]
    exact: bool
    _linear: LinearFit
    _nudged: Array
    _baseline_points: int

    def throughput(self, workers: Sequence[int]) -> Array:
        base = self.form.speedup(self.values, np.array([float(self.baseline)]))
        return self.baseline_throughput * self.form.speedup(self.values, np.asarray(workers, dtype=np.float64)) / base

    def predict(self, workers: int) -> Prediction:
        value = float(self.throughput([workers])[0])
        variance = self._linear.variance
        if variance is None or self._linear.covariance is None or workers == self.baseline:
            return Prediction(value)
        here = self._log_gain(self.values, workers)
        steps = _NUDGE * np.maximum(np.abs(self.values), 1e-3)
        gradient = (np.array([self._log_gain(self.values + step, workers) for step in np.diag(steps)]) - here) / steps
        # d log X(N) / d log X(N0), the parameters following.
        from_baseline = 1 + (self._log_gain(self._nudged, workers) - here) / _NUDGE
        spread = variance + float(gradient @ self._linear.covariance @ gradient)
        spread += from_baseline**2 * variance / self._baseline_points
        half = student_quantile(self._linear.degrees, LEVEL) * float(np.sqrt(spread))
        return log_interval(value, half)

    def _log_gain(self, values: Array, workers: int) -> float:
        pair = self.form.speedup(values, np.array([workers, self.baseline], dtype=np.float64))
        return float(np.log(max(pair[0], 1e-300)) - np.log(max(pair[1], 1e-300)))


def fit_law(
    form: ScalingLaw, workers: Sequence[int], throughput: Sequence[float], *, baseline: int | None = None
) -> LawFit:
    """Fit a law to points (N, samples/s), one per repetition; the baseline is the smallest count unless named.

    Raises FitError for values that are not positive, a baseline that is not among them, or fewer worker counts beside
    the baseline than parameters.
    """
    counts = positive_array(form.name, "worker counts", workers)
    rates = positive_array(form.name, "throughputs", throughput)
    if same_length(form.name, {"worker counts": counts, "throughputs": rates}) == 0:
        raise FitError(f"{form.name}: no points")
    base = float(counts.min() if baseline is None else baseline)
    at_base = counts == base
    if not at_base.any():
        raise FitError(f"{form.name}: the baseline of {base:g} workers was not measured")
    others = sorted(set(counts[~at_base]))
    needed = len(form.symbols)
    require_points(form.name, len(others), needed, f"worker counts beside the baseline of {base:g}")
    # All samples over all time: the mean of seconds per sample.
    base_rate = 1 / float(np.mean(1 / rates[at_base]))
    linear, values = _solve(form, counts[~at_base], base, rates[~at_base] / base_rate)
    _, nudged = _solve(form, counts[~at_base], base, rates[~at_base] / (base_rate * np.exp(_NUDGE)))
    slope = (nudged - values) / _NUDGE
    shared = None if linear.variance is None else linear.variance / at_base.sum() * np.outer(slope, slope)
    fitted = base_rate * form.speedup(values, counts[~at_base]) / form.speedup(values, np.array([base]))
    return LawFit(
        form=form,
        baseline=int(base),
        baseline_throughput=base_rate,
        values=values,
        parameters=tuple(_cap_parameter(each, form) for each in linear.parameters([""] * needed, shared)),
        workers=tuple(int(count) for count in counts[~at_base]),
        residuals=tuple(float(error) for error in fitted / rates[~at_base] - 1),
        exact=len(others) == needed,
        _linear=linear,
        _nudged=nudged,
        _baseline_points=int(at_base.sum()),
    )


def _cap_parameter(parameter: Parameter, form: ScalingLaw) -> Parameter:
    """A share is at most 1, even where more workers are slower than fewer."""
    if parameter.value is None or parameter.value <= form.at_most:
        return parameter
    low = None if parameter.low is None else min(parameter.low, form.at_most)
    note = f"at its bound of {form.at_most:g}; the curve is slower than this law allows"
    return Parameter(parameter.name, form.at_most, low, form.at_most, parameter.unit, note)


def _solve(form: ScalingLaw, workers: Array, baseline: float, gains: Array) -> tuple[LinearFit, Array]:
    design, target = form.rows(workers, baseline, gains)
    linear = nonnegative(design, target, form.symbols)
    return linear, np.minimum(linear.values, form.at_most)
