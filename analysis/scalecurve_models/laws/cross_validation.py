"""Which scaling law holds: every law is tested at held-out worker counts, never at those it was fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_api.spec.scaling import Mode
from scalecurve_models.fitting.least_squares import FitError, largest_absolute, mean_absolute
from scalecurve_models.fitting.separability import leading
from scalecurve_models.laws.definitions import ScalingLaw, laws_of
from scalecurve_models.laws.law_fit import LawFit, fit_law


@dataclass(frozen=True)
class HeldOutPoint:
    """One worker count, predicted by a law fitted to the others; None where those are too few."""

    workers: int
    measured: float
    predicted: float | None

    @property
    def error(self) -> float | None:
        return None if self.predicted is None else self.predicted / self.measured - 1


@dataclass(frozen=True)
class CrossValidatedLaw:
    """A law with its fit (or ``failure``, the reason for none) and its predictions of held-out points."""

    form: ScalingLaw
    fit: LawFit | None
    failure: str
    held_out: tuple[HeldOutPoint, ...]

    @property
    def held_out_mean(self) -> float | None:
        if any(point.error is None for point in self.held_out):
            return None  # a mean over the easier points would be optimistic
        return mean_absolute([point.error for point in self.held_out])

    @property
    def held_out_largest(self) -> float | None:
        return largest_absolute([point.error for point in self.held_out])

    @property
    def farthest(self) -> float | None:
        return self.held_out[-1].error if self.held_out else None

    @property
    def in_sample_mean(self) -> float | None:
        return mean_absolute(self.fit.residuals) if self.fit else None


@dataclass(frozen=True)
class LawComparison:
    """All laws on one curve; ``leading`` are those of the lowest held-out errors (``fitting.separability``)."""

    laws: tuple[CrossValidatedLaw, ...]
    leading: tuple[CrossValidatedLaw, ...]

    @property
    def best(self) -> CrossValidatedLaw | None:
        return self.leading[0] if len(self.leading) == 1 else None

    def law(self, name: str) -> CrossValidatedLaw:
        return next(judged for judged in self.laws if judged.form.name == name)


def compare_laws(
    workers: Sequence[int], throughput: Sequence[float], *, baseline: int | None = None, mode: Mode = Mode.weak
) -> LawComparison:
    """Fit every law to points (N, samples/s), one per repetition, and cross-validate it over worker counts.

    The baseline is never held out: every law is relative to it. With one other worker count only ``linear`` has a
    held-out error; with none at all there is no best law. Raises FitError for values that are not positive, or a
    baseline that was not measured.
    """
    laws = tuple(_cross_validate(form, workers, throughput, baseline) for form in laws_of(mode))
    return LawComparison(laws, leading(laws, lambda law: {point.workers: point.error for point in law.held_out}))


def leave_one_out(
    form: ScalingLaw, workers: Sequence[int], throughput: Sequence[float], *, baseline: int | None = None
) -> tuple[HeldOutPoint, ...]:
    """Every worker count but the baseline, ascending, predicted without all of its repetitions."""
    counts = np.asarray(workers)
    rates = np.asarray(throughput, dtype=np.float64)
    base = int(counts.min() if baseline is None else baseline)
    out = []
    for count in sorted({int(n) for n in counts} - {base}):
        rest = counts != count
        try:
            fit = fit_law(form, counts[rest].tolist(), rates[rest].tolist(), baseline=base)
        except FitError:
            predicted = None
        else:
            predicted = float(fit.throughput([count])[0])
        out.append(HeldOutPoint(count, 1 / float(np.mean(1 / rates[~rest])), predicted))
    return tuple(out)


def _cross_validate(
    form: ScalingLaw, workers: Sequence[int], throughput: Sequence[float], baseline: int | None
) -> CrossValidatedLaw:
    try:
        fit = fit_law(form, workers, throughput, baseline=baseline)
    except FitError as error:
        if not form.symbols:
            raise
        return CrossValidatedLaw(form, None, str(error), ())
    return CrossValidatedLaw(form, fit, "", leave_one_out(form, workers, throughput, baseline=baseline))
