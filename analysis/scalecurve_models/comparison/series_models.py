"""Every model on one measured curve, in one form: what it predicts anywhere, and how wrong it was where it was blind.

The laws see the curve alone. The step models (Pollux' overlap, Optimus' speed) see all curves of the program, strong
and weak, at all batches: a weak point at 2 workers tells of a strong one, and the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from scalecurve_models.fitting.least_squares import (
    FitError,
    Parameter,
    Prediction,
    largest_absolute,
    mean_absolute,
)
from scalecurve_models.fitting.observations import ObservedPoint, ObservedSeries
from scalecurve_models.goodput.overlap import StepTime, fit_overlap
from scalecurve_models.laws.cross_validation import compare_laws
from scalecurve_models.laws.law_fit import LawFit
from scalecurve_models.optimus.speed import EQUATIONS, fit_speed

OVERLAP, SPEED = "overlap", "optimus"
OVERLAP_EQUATION = "T = ((αc + βc·m)^γ + T_net^γ)^(1/γ)"


@dataclass(frozen=True)
class SeriesModel:
    """A model on a curve; ``failure`` says why there is none.

    ``predict`` gives samples/s at a worker count. ``left_out`` holds, for every measured count but the baseline, the
    samples/s from a fit that did not see it (None where too little stayed), ``fitted`` what the fit to all says.
    """

    name: str
    equation: str
    parameters: tuple[Parameter, ...] = ()
    failure: str = ""
    notes: tuple[str, ...] = ()
    left_out: Mapping[int, float | None] | None = None
    fitted: Mapping[int, float] | None = None
    measured: Mapping[int, float] | None = None
    predict: Callable[[int], Prediction] | None = None

    def error(self, workers: int) -> float | None:
        predicted = (self.left_out or {}).get(workers)
        return None if predicted is None or not self.measured else predicted / self.measured[workers] - 1

    @property
    def errors(self) -> tuple[float | None, ...]:
        return tuple(self.error(workers) for workers in sorted(self.left_out or ()))

    @property
    def held_out_mean(self) -> float | None:
        """Their mean size; None where one of them could not be predicted, for the others would flatter."""
        errors = self.errors
        return None if any(error is None for error in errors) else mean_absolute(errors)

    @property
    def held_out_largest(self) -> float | None:
        return largest_absolute(self.errors)

    @property
    def in_sample_mean(self) -> float | None:
        if not self.fitted or not self.measured:
            return None
        return mean_absolute([self.fitted[n] / self.measured[n] - 1 for n in self.left_out or ()])


@dataclass(frozen=True)
class SeriesPrediction:
    """All models on one curve; ``best`` has the smallest held-out error, None where no fit could be tested.

    ``series`` are all measured points, ``fitted_to`` those that models saw: fewer where some were held out by name.
    """

    series: ObservedSeries
    fitted_to: ObservedSeries
    models: tuple[SeriesModel, ...]
    best: SeriesModel | None

    def model(self, name: str) -> SeriesModel | None:
        return next((model for model in self.models if model.name == name), None)


ExtraModels = Callable[[Sequence[ObservedSeries]], Callable[[ObservedSeries], Sequence[SeriesModel]]]
"""Models from elsewhere: given the curves of one program, what gives the models of each."""


def predict_series(
    series: Sequence[ObservedSeries],
    hold_out: Collection[int] = (),
    level: float = 0.95,
    extra_models: ExtraModels | None = None,
    hold_out_batches: Collection[int] = (),
) -> tuple[SeriesPrediction, ...]:
    """Fit every model to every curve of one program.

    ``hold_out`` are worker counts that no model may see, ``hold_out_batches`` batches of a worker. A curve of which
    nothing was seen is predicted by the step models alone, from the other curves.
    """
    seen = [each.without(hold_out).without_batches(hold_out_batches) for each in series]
    fitted_to = [fitted for fitted in seen if fitted.points]
    if not fitted_to:
        return ()
    overlap, speed = _overlap(fitted_to, level), _speed(fitted_to, level)
    others = extra_models(fitted_to) if extra_models else None
    out = []
    for whole, fitted in zip(series, seen, strict=True):
        if not fitted.points:
            unseen = (overlap(fitted, whole), speed(fitted, whole))
            out.append(SeriesPrediction(whole, fitted, unseen, None))
            continue
        models = (
            *_laws(fitted, level),
            overlap(fitted, whole),
            speed(fitted, whole),
            *(others(fitted) if others else ()),
        )
        out.append(SeriesPrediction(whole, fitted, models, _best(models)))
    return tuple(out)


def _best(models: Sequence[SeriesModel]) -> SeriesModel | None:
    known = [model for model in models if model.held_out_mean is not None]
    if len(known) == 1 and not known[0].parameters:
        return None  # the line of N, tested alone: to be the best takes another one to beat
    return min(known, key=lambda m: (round(m.held_out_mean or 0.0, 12), len(m.parameters)), default=None)


def _laws(series: ObservedSeries, level: float) -> list[SeriesModel]:
    base = _baseline(series)
    rows = [(point.workers, each.throughput) for point in series.points for each in point.repetitions]
    compared = compare_laws(
        [n for n, _ in rows], [rate for _, rate in rows], baseline=base, mode=series.mode, level=level
    )
    measured = _measured(series)
    out = []
    for judged in compared.laws:
        if judged.fit is None:
            out.append(SeriesModel(judged.form.name, judged.form.equation, failure=judged.failure, measured=measured))
            continue
        notes = [] if not judged.fit.exact or not judged.form.symbols else [_exact(judged.fit)]
        out.append(
            SeriesModel(
                name=judged.form.name,
                equation=judged.form.equation,
                parameters=judged.fit.parameters,
                notes=tuple(notes),
                left_out={point.workers: point.predicted for point in judged.held_out},
                fitted=dict(zip(series.workers, judged.fit.throughput(series.workers).tolist(), strict=True)),
                measured=measured,
                predict=judged.fit.predict,
            )
        )
    return out


def _exact(fit: LawFit) -> str:
    parameters, points = len(fit.parameters), len(set(fit.workers))
    through = f"{parameters} parameter" + "s" * (parameters > 1) + f" through {points} point" + "s" * (points > 1)
    return f"{through} and the baseline: its shape was not tested"


OnCurve = Callable[[ObservedSeries, ObservedSeries], SeriesModel]
"""A fit to a program on one curve: what was seen of the curve, and the whole of it."""


def _overlap(series: Sequence[ObservedSeries], level: float) -> OnCurve:
    points = [
        StepTime(p.workers, p.point.nodes, p.batch_per_worker, each.step_s, each.compute_s)
        for p in _points(series)
        for each in p.repetitions
    ]
    try:
        fit = fit_overlap(points, level)
    except FitError as error:
        failure = str(error)
        return lambda curve, _: SeriesModel(OVERLAP, OVERLAP_EQUATION, failure=failure, measured=_measured(curve))
    steps = {
        point.run: None if error is None else point.step_s * (1 + error)
        for point, error in zip(fit.points, fit.held_out, strict=True)
    }

    def on(curve: ObservedSeries, full: ObservedSeries) -> SeriesModel:
        def predict(workers: int) -> Prediction:
            batch = full.batch_at(workers)
            return _per_second(fit.predict(workers, batch / workers, nodes=full.nodes_at(workers)), batch)

        left_out = {}
        for point in curve.points:
            step = steps[point.workers, point.point.nodes, point.batch_per_worker]
            left_out[point.workers] = None if step is None else point.batch / step
        return SeriesModel(
            name=OVERLAP,
            equation=OVERLAP_EQUATION,
            parameters=fit.parameters,
            notes=fit.notes,
            left_out=_but_baseline(left_out, curve),
            fitted={n: predict(n).value for n in curve.workers},
            measured=_measured(curve),
            predict=predict,
        )

    return on


def _speed(series: Sequence[ObservedSeries], level: float) -> OnCurve:
    equation = EQUATIONS["workers"].equation
    rows = [(p.workers, p.batch, 1 / each.step_s) for p in _points(series) for each in p.repetitions]
    workers, batches, speeds = ([row[column] for row in rows] for column in range(3))
    try:
        fit = fit_speed("workers", workers, speeds, batch=batches, level=level)
    except FitError as error:
        failure = str(error)
        return lambda curve, _: SeriesModel(SPEED, equation, failure=failure, measured=_measured(curve))
    held = {
        (w, m): None if error is None else f * (1 + error) for (w, m, f), error in zip(rows, fit.held_out, strict=True)
    }

    def on(curve: ObservedSeries, full: ObservedSeries) -> SeriesModel:
        def predict(workers: int) -> Prediction:
            batch = full.batch_at(workers)
            found = fit.predict(workers, batch=batch)
            low, high = (None if v is None else v * batch for v in (found.low, found.high))
            return Prediction(found.value * batch, low, high)

        left_out = {}
        for point in curve.points:
            speed = held[point.workers, point.batch]
            left_out[point.workers] = None if speed is None else speed * point.batch
        return SeriesModel(
            name=SPEED,
            equation=equation,
            parameters=fit.parameters,
            notes=fit.notes,
            left_out=_but_baseline(left_out, curve),
            fitted={n: predict(n).value for n in curve.workers},
            measured=_measured(curve),
            predict=predict,
        )

    return on


def _points(series: Sequence[ObservedSeries]) -> list[ObservedPoint]:
    return [point for each in series for point in each.points]


def _per_second(step: Prediction, batch: float) -> Prediction:
    if step.low is None or step.high is None:
        return Prediction(batch / step.value)
    return Prediction(batch / step.value, batch / step.high, batch / step.low if step.low > 0 else math.inf)


def _measured(series: ObservedSeries) -> dict[int, float]:
    return {point.workers: point.throughput for point in series.points}


def _baseline(series: ObservedSeries) -> int:
    return series.baseline if series.at(series.baseline) else series.workers[0]


def _but_baseline(values: Mapping[int, float | None], series: ObservedSeries) -> dict[int, float | None]:
    """As the laws have it: what is relative to a point does not predict it."""
    if not series.points:
        return {}
    return {workers: value for workers, value in values.items() if workers != _baseline(series)}
