"""Predicted against measured: throughput, run time and cost at every worker count, by every model, with errors.

A prediction of a measured point is made without it: the point is left out and predicted from the others (or held out
by name and excluded from every fit). Errors at points that a fit used are the ``in_sample`` column of the models' table
and prove nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import believable
from scalecurve.curves.cost import SeriesCost, cost, merged, stated_price
from scalecurve.render.table import Column
from scalecurve_api.spec.experiment import Cost
from scalecurve_models.comparison.series_models import ExtraModels, SeriesModel, SeriesPrediction, predict_series
from scalecurve_models.fitting.observations import ObservedSeries, observed_series, programs

LEFT_OUT, HELD_OUT, BASELINE, NOT_MEASURED = "left out", "held out", "baseline", "not measured"
_DENSE = 48


@dataclass(frozen=True)
class CostBasis:
    """The amount of work that run time and cost refer to, and the price of a worker-hour (None without one)."""

    title: str
    samples: float
    per_worker_hour: float | None
    currency: str
    sessions: int = 1

    def seconds(self, throughput: float | None) -> float | None:
        return None if throughput is None else self.samples / throughput

    def cost(self, throughput: float | None, workers: int) -> float | None:
        seconds = self.seconds(throughput)
        if seconds is None or self.per_worker_hour is None:
            return None
        return seconds / 3600 * workers * self.per_worker_hour

    def columns(self) -> tuple[Column, Column]:
        """Run time and cost of the work, as headings."""
        return (
            Column("seconds", f"Run time ({self.title})", "number", "s"),
            Column("cost", f"Cost ({self.title})", "number", self.currency),
        )

    def cells(self, throughput: float, workers: int) -> tuple[float | None, float | None]:
        """Return run time and cost under ``columns``."""
        return self.seconds(throughput), self.cost(throughput, workers)

    def plain(self, throughput: float, workers: int) -> dict[str, object]:
        """Return the ``cells`` by name, with the work's title, for JSON."""
        names = (column.name for column in self.columns())
        return {"work": self.title, **dict(zip(names, self.cells(throughput, workers), strict=True))}


@dataclass(frozen=True)
class ComparedPoint:
    """One model at one worker count, in samples/s; ``how`` is one of the constants above.

    ``refused`` is why no model says anything of this count.
    """

    workers: int
    model: str
    how: str
    measured: float | None
    predicted: float | None
    low: float | None = None
    high: float | None = None
    refused: str = ""

    @property
    def error(self) -> float | None:
        return None if self.measured is None or self.predicted is None else self.predicted / self.measured - 1


@dataclass(frozen=True)
class ModelCurve:
    """A model's line in a plot, from one worker to the largest count: samples/s with the interval for a new run."""

    model: str
    workers: tuple[float, ...]
    throughput: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    best: bool
    leads: bool


@dataclass(frozen=True)
class SeriesComparison:
    """One curve with the predictions of all models; ``measured`` are (workers, samples/s)."""

    prediction: SeriesPrediction
    cost_basis: CostBasis
    rows: tuple[ComparedPoint, ...]
    measured: tuple[tuple[int, float], ...]
    curves: tuple[ModelCurve, ...]

    @property
    def series(self) -> ObservedSeries:
        return self.prediction.series


def compare_models(
    bundle: Bundle,
    workers: Sequence[int] = (),
    hold_out: Collection[int] = (),
    price: Cost | None = None,
    extra_models: ExtraModels | None = None,
    hold_out_batches: Collection[int] = (),
    include_unproved: bool = False,
) -> tuple[SeriesComparison, ...]:
    """Compare every model on every curve of a bundle, at the measured worker counts and at the further ``workers``.

    ``hold_out`` and ``hold_out_batches`` are worker counts and batches per worker to exclude from every fit; at the
    others each prediction leaves its own point out. ``price`` replaces the experiment's. Points that do not count
    (``scalecurve.curves.doubts``) are as if not measured unless ``include_unproved`` is set.
    """
    bundle = believable(bundle, include_unproved)
    series = observed_series(bundle)
    stated = merged(price, stated_price(bundle))
    bases = {
        costs.series.name: _cost_basis(costs, stated) for costs in cost([bundle], price, include_unproved=True).series
    }
    predictions = {
        prediction.series.name: prediction
        for program in programs(series).values()
        for prediction in predict_series(program, hold_out, extra_models, hold_out_batches)
    }
    return tuple(
        _compare(predictions[each.name], bases[each.name], workers) for each in series if each.name in predictions
    )


def idle_worker_notes(comparisons: Sequence[SeriesComparison], workers: Sequence[int]) -> list[str]:
    """Return a sentence for each curve that omits counts of ``workers`` because they exceed its global batch."""
    return [
        f"{each.series.name}: omitted {', '.join(f'{n:,}' for n in over)} (more workers than samples in the batch)."
        for each in comparisons
        if (over := each.series.counts_beyond_batch(workers))
    ]


def cost_basis(
    dataset_samples: int | None, epochs: int | None, unit: str, hour: float | None, currency: str
) -> CostBasis:
    """Choose the full training where its samples are known, else one epoch, else a million samples.

    Of run times it is one run.
    """
    if unit == "runs":
        return CostBasis("one run", 1.0, hour, currency)
    if dataset_samples and epochs:
        return CostBasis("full training", dataset_samples * epochs, hour, currency)
    if dataset_samples:
        return CostBasis("one epoch", dataset_samples, hour, currency)
    return CostBasis(f"1 million {unit}", 1e6, hour, currency)


def work_of(price: Cost | None) -> CostBasis:
    """Choose the cost basis of what is in no bundle: of samples, by the price alone."""
    if price is None:
        return cost_basis(None, None, "samples", None, "")
    return cost_basis(price.dataset_samples, price.epochs, "samples", price.per_worker_hour, price.currency)


def _cost_basis(costs: SeriesCost, price: Cost | None) -> CostBasis:
    hour = price.per_worker_hour if price and costs.currency else None
    basis = cost_basis(costs.dataset_samples, costs.epochs, costs.series.sample_unit, hour, costs.currency or "")
    return replace(basis, sessions=costs.sessions)


def _compare(prediction: SeriesPrediction, basis: CostBasis, workers: Sequence[int]) -> SeriesComparison:
    series = prediction.series
    counts = series.counts_with(workers)
    rows: list[ComparedPoint] = []
    for count in counts:
        by_model = [_row(prediction, model, count) for model in prediction.models if not model.failure]
        if any(row.how == BASELINE for row in by_model):
            # Most models are relative to the baseline: one row without a prediction.
            rows.append(ComparedPoint(count, "", BASELINE, by_model[0].measured, None))
        rows += [row for row in by_model if row.how != BASELINE]
    return SeriesComparison(
        prediction=prediction,
        cost_basis=basis,
        rows=tuple(rows),
        measured=tuple((point.workers, point.throughput) for point in series.points),
        curves=tuple(_curve(model, prediction, counts) for model in prediction.models if model.predict),
    )


def _row(prediction: SeriesPrediction, model: SeriesModel, workers: int) -> ComparedPoint:
    point = prediction.series.at(workers)
    measured = point.throughput if point else None
    if prediction.fitted_to.at(workers) is not None:
        left_out = model.left_out or {}
        how = LEFT_OUT if workers in left_out else BASELINE
        return ComparedPoint(workers, model.name, how, measured, left_out.get(workers))
    how = NOT_MEASURED if measured is None else HELD_OUT
    if model.predict is None:
        return ComparedPoint(workers, model.name, how, measured, None)
    predicted = model.predict(workers)
    return ComparedPoint(workers, model.name, how, measured, predicted.value, predicted.low, predicted.high)


def _curve(model: SeriesModel, prediction: SeriesPrediction, counts: Sequence[int]) -> ModelCurve:
    assert model.predict is not None
    last = counts[-1]
    grid = sorted({*range(1, min(last, _DENSE) + 1), *counts, *(round(last ** (i / _DENSE)) for i in range(_DENSE))})
    predictions = [model.predict(workers) for workers in grid]
    return ModelCurve(
        model=model.name,
        workers=tuple(float(n) for n in grid),
        throughput=tuple(each.value for each in predictions),
        low=tuple(each.low for each in predictions),
        high=tuple(each.high for each in predictions),
        best=model is prediction.best,
        leads=model in prediction.leading,
    )
