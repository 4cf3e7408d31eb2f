"""Every model on one measured curve, in one form: what it predicts anywhere, and its error at left-out points.

The laws are fitted to the curve alone. The step models (Pollux' overlap, Optimus' speed) are fitted to all curves of
the program, strong and weak, at all batches: a weak point at 2 workers informs a strong one and vice versa.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from scalecurve_api.text import count
from scalecurve_models.fitting.least_squares import FitError, Parameter, Prediction, largest_absolute, mean_absolute
from scalecurve_models.fitting.observations import ObservedPoint, ObservedSeries
from scalecurve_models.fitting.separability import leading, not_separable
from scalecurve_models.goodput.overlap import StepTime, fit_overlap
from scalecurve_models.laws.cross_validation import compare_laws
from scalecurve_models.optimus.speed import EQUATIONS, fit_speed

OVERLAP, SPEED = "overlap", "optimus"
OVERLAP_EQUATION = "T = ((αc + βc·m)^γ + T_net^γ)^(1/γ)"


@dataclass(frozen=True)
class SeriesModel:
    """A model on a curve; ``failure`` says why it could not be fitted.

    ``predict`` gives samples/s at a worker count. ``left_out`` holds, for every measured count but the baseline, the
    samples/s from a fit without it (None where too few points were left), ``fitted`` those of the fit to all.
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
        """Mean |error|; None where one of them is missing, since the others would be optimistic."""
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
    """All models on one curve; ``leading`` are those of the lowest left-out errors (``fitting.separability``).

    It is empty where no fit could be tested, and ``best`` is None unless it is one model. ``series`` has all measured
    points, ``fitted_to`` those used for fitting: fewer with ``hold_out``.
    """

    series: ObservedSeries
    fitted_to: ObservedSeries
    models: tuple[SeriesModel, ...]
    leading: tuple[SeriesModel, ...] = ()

    @property
    def best(self) -> SeriesModel | None:
        return self.leading[0] if len(self.leading) == 1 else None

    @property
    def best_in_words(self) -> str | None:
        """Its name, or those that are not separable."""
        names = [model.name for model in self.leading]
        return not_separable(names) if len(names) > 1 else names[0] if names else None


ExtraModels = Callable[[Sequence[ObservedSeries]], Callable[[ObservedSeries], Sequence[SeriesModel]]]
"""Further models: from the curves of one program to a function that gives the models of each curve."""


def predict_series(
    series: Sequence[ObservedSeries],
    hold_out: Collection[int] = (),
    extra_models: ExtraModels | None = None,
    hold_out_batches: Collection[int] = (),
) -> tuple[SeriesPrediction, ...]:
    """Fit every model to every curve of one program.

    ``hold_out`` and ``hold_out_batches`` are worker counts and batches per worker to exclude from every fit. A curve
    without any other point is predicted by the step models alone, from the other curves.
    """
    kept = [each.without(hold_out, hold_out_batches) for each in series]
    fitted_to = [fitted for fitted in kept if fitted.points]
    if not fitted_to:
        return ()
    step_models = [_overlap(fitted_to), _speed(fitted_to)]
    others = extra_models(fitted_to) if extra_models else lambda curve: ()
    out = []
    for full, fitted in zip(series, kept, strict=True):
        by_step = [on_curve(fitted, full) for on_curve in step_models]
        if fitted.points:
            models = (*_laws(fitted), *by_step, *others(fitted))
            out.append(SeriesPrediction(full, fitted, models, _select_leading(models)))
        else:
            out.append(SeriesPrediction(full, fitted, tuple(by_step)))
    return tuple(out)


def _select_leading(models: Sequence[SeriesModel]) -> tuple[SeriesModel, ...]:
    tested = [model for model in models if model.held_out_mean is not None]
    if len(tested) == 1 and not tested[0].parameters:
        return ()  # linear speed-up, tested alone: nothing to compare it with
    return leading(tested, lambda model: {workers: model.error(workers) for workers in model.left_out or ()})


def _laws(series: ObservedSeries) -> list[SeriesModel]:
    rows = [(point.workers, each.throughput) for point in series.points for each in point.repetitions]
    workers, rates = ([row[column] for row in rows] for column in (0, 1))
    compared = compare_laws([int(n) for n in workers], rates, baseline=_baseline(series), mode=series.mode)
    measured = _throughput_by_workers(series)
    out = []
    for law in compared.laws:
        name, equation, fit = law.form.name, law.form.equation, law.fit
        if fit is None:
            out.append(SeriesModel(name, equation, failure=law.failure, measured=measured))
            continue
        points = count(len(set(fit.workers)), "point")
        exact = f"{count(len(fit.parameters), 'parameter')} through {points} and the baseline"
        out.append(
            SeriesModel(
                name=name,
                equation=equation,
                parameters=fit.parameters,
                notes=(f"{exact}: its shape was not tested",) if fit.exact and law.form.symbols else (),
                left_out={point.workers: point.predicted for point in law.held_out},
                fitted=dict(zip(series.workers, fit.throughput(series.workers).tolist(), strict=True)),
                measured=measured,
                predict=fit.predict,
            )
        )
    return out


OnCurve = Callable[[ObservedSeries, ObservedSeries], SeriesModel]
"""A model fitted to a program, applied to one curve: the points used for fitting, and all of them."""


def _overlap(series: Sequence[ObservedSeries]) -> OnCurve:
    """Pollux' step model, fitted once to all curves of the program."""
    steps = [
        StepTime(p.workers, p.point.nodes, p.batch_per_worker, each.step_s, each.compute_s)
        for p in _points(series)
        for each in p.repetitions
    ]
    try:
        _refuse_without_steps(series)
        fit = fit_overlap(steps)
    except FitError as error:
        return _model_of_failure(OVERLAP, OVERLAP_EQUATION, error)
    left_out = {
        step.run: None if error is None else step.step_s * (1 + error)
        for step, error in zip(fit.points, fit.held_out, strict=True)
    }

    def predict(curve: ObservedSeries, workers: int) -> Prediction:
        batch = curve.batch_at(workers)
        return fit.predict(workers, batch / workers, nodes=curve.nodes_at(workers)).inverse(batch)

    def predict_held_out(point: ObservedPoint) -> float | None:
        step_s = left_out[point.workers, point.point.nodes, point.batch_per_worker]
        return None if step_s is None else point.batch / step_s

    return _model_of_fit(OVERLAP, OVERLAP_EQUATION, fit.parameters, fit.notes, predict, predict_held_out)


def _speed(series: Sequence[ObservedSeries]) -> OnCurve:
    """Optimus' synchronous speed without parameter servers, fitted once to all curves of the program."""
    equation = EQUATIONS["workers"].equation
    rows = [(p.workers, p.batch, 1 / each.step_s) for p in _points(series) for each in p.repetitions]
    workers, batches, speeds = ([row[column] for row in rows] for column in range(3))
    try:
        _refuse_without_steps(series)
        fit = fit_speed("workers", workers, speeds, batch=batches)
    except FitError as error:
        return _model_of_failure(SPEED, equation, error)
    left_out = {
        (w, m): None if error is None else f * (1 + error) for (w, m, f), error in zip(rows, fit.held_out, strict=True)
    }

    def predict(curve: ObservedSeries, workers: int) -> Prediction:
        batch = curve.batch_at(workers)
        speed = fit.predict(workers, batch=batch)
        low, high = (None if end is None else end * batch for end in (speed.low, speed.high))
        return Prediction(speed.value * batch, low, high)

    def predict_held_out(point: ObservedPoint) -> float | None:
        speed = left_out[point.workers, point.batch]
        return None if speed is None else speed * point.batch

    return _model_of_fit(SPEED, equation, fit.parameters, fit.notes, predict, predict_held_out)


def _refuse_without_steps(series: Sequence[ObservedSeries]) -> None:
    if not all(each.has_steps for each in series):
        raise FitError("needs step times, and only the throughput is known: import it with its batch")


def _model_of_failure(name: str, equation: str, error: FitError) -> OnCurve:
    failure = str(error)
    return lambda curve, _: SeriesModel(name, equation, failure=failure, measured=_throughput_by_workers(curve))


def _model_of_fit(
    name: str,
    equation: str,
    parameters: tuple[Parameter, ...],
    notes: tuple[str, ...],
    predict: Callable[[ObservedSeries, int], Prediction],
    excluded: Callable[[ObservedPoint], float | None],
) -> OnCurve:
    """``predict`` gives samples/s on a curve, ``excluded`` those at a point from a fit without it."""

    def make_model(curve: ObservedSeries, full: ObservedSeries) -> SeriesModel:
        # Like the laws, a model does not predict the point that it is relative to.
        others = [point for point in curve.points if point.workers != _baseline(curve)]
        return SeriesModel(
            name=name,
            equation=equation,
            parameters=parameters,
            notes=notes,
            left_out={point.workers: excluded(point) for point in others},
            fitted={n: predict(full, n).value for n in curve.workers},
            measured=_throughput_by_workers(curve),
            predict=lambda workers: predict(full, workers),
        )

    return make_model


def _points(series: Sequence[ObservedSeries]) -> list[ObservedPoint]:
    return [point for each in series for point in each.points]


def _throughput_by_workers(series: ObservedSeries) -> dict[int, float]:
    return {point.workers: point.throughput for point in series.points}


def _baseline(series: ObservedSeries) -> int:
    """The curve's own baseline, or its smallest measured count where that one has no result."""
    return series.baseline if series.at(series.baseline) else series.workers[0]
