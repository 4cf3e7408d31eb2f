"""How a bundle's runs learn: fitted loss curves, steps and time to a target, and the effect of depth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import UnusableFile
from scalecurve_api.features.accuracy.facts import EVALUATIONS
from scalecurve_api.programs.data import DataSource
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import Point
from scalecurve_models.fitting.least_squares import Array, FitError, SumFit, mean_absolute
from scalecurve_models.fitting.observations import ObservedSeries, observed_series
from scalecurve_models.goodput.noise import fit_critical_batch
from scalecurve_models.optimus.depth import DepthRegression, LeftOutDepth, LossRun, leave_out_depth, regress
from scalecurve_models.optimus.loss import LossFit, StepsToTarget, fit_accuracy, fit_loss, refits, steps_to_accuracy
from scalecurve_models.optimus.records import LearningCurve, depth_and_family, learning_curves

HALF = 0.5


@dataclass(frozen=True)
class PointLearningFit:
    """All runs of one point: the curve through their points, and how well its first half predicted the second.

    ``ahead_error`` is the mean over runs of |predicted/measured - 1| of the second half by a fit to the first half;
    ``half`` is a fit to the first halves of all runs together. ``reach`` is the fitted number of steps to the target
    accuracy (or ``target_loss``); ``reached_steps`` and ``reached_s`` are medians of what the runs took, None unless
    all of them reached the target.
    """

    point: Point
    kind: str
    curves: tuple[LearningCurve, ...]
    fit: LossFit | None
    failure: str
    ahead_error: float | None
    half: LossFit | None
    target: float | None
    reach: StepsToTarget | None
    reached_steps: float | None
    reached_s: float | None
    step_s: float | None

    @property
    def seconds(self) -> tuple[float | None, float | None, float | None]:
        if self.reach is None or self.step_s is None:
            return None, None, None
        ends = (self.reach.steps, self.reach.low, self.reach.high)
        predicted, low, high = (None if steps is None else steps * self.step_s for steps in ends)
        return predicted, low, high


@dataclass(frozen=True)
class LearningFit:
    """Everything about learning in one bundle; ``critical`` is the batch beyond which few steps are saved.

    ``training`` tells whether the points, and ``depth_training`` whether depth and left-out depths, are of the loss
    that was trained on.
    """

    points: tuple[PointLearningFit, ...]
    depth: DepthRegression | None
    left_out: tuple[LeftOutDepth, ...]
    critical: SumFit | None
    notes: tuple[str, ...]
    problems: tuple[UnusableFile, ...]
    training: bool = False
    depth_training: bool = False


def fit_learning(
    bundle: Bundle,
    target_loss: float | None = None,
    target: float | None = None,
    *,
    of_steps: bool = True,
    training: bool = False,
) -> LearningFit:
    """Fit every point that recorded losses; targets replace the experiment's own target accuracy.

    Without ``of_steps`` only evaluations are used, and no step table is read. ``training`` fits the loss that was
    trained on, in place of that on held-out data; it has no accuracy, and so no target.
    """
    curves, problems = learning_curves(
        bundle, lambda record: of_steps and not _has_synthetic_data(record), training=training
    )
    series = {each.name: each for each in observed_series(bundle)}
    groups: dict[str, list[LearningCurve]] = {}
    for curve in curves:
        groups.setdefault(curve.record.trial.point.name, []).append(curve)
    points = [_point(group, series, target_loss, target) for group in groups.values()]
    order = {name: place for place, name in enumerate(series)}
    points.sort(key=lambda fit: (order.get(fit.point.series, len(order)), fit.point.workers, fit.point.name))
    notes: list[str] = []
    if any(
        t.good and t.record and not EVALUATIONS.of(t.record) and _has_synthetic_data(t.record) for t in bundle.trials
    ):
        notes.append("Losses of steps on synthetic data are ignored: nothing can be learned from random data.")
    depth, left_out = depth_of(curves, notes)
    critical = _critical(points, notes)
    return LearningFit(tuple(points), depth, left_out, critical, tuple(notes), problems, training, training)


def add_trained_depth(learning: LearningFit, bundle: Bundle) -> LearningFit:
    """The same with depths compared by the loss that was trained on, as Optimus models it; of evaluations alone."""
    curves, _ = learning_curves(bundle, lambda record: False, training=True)
    notes: list[str] = []
    depth, left_out = depth_of(curves, notes)
    kept = tuple(dict.fromkeys([*learning.notes, *notes]))
    return replace(learning, depth=depth, left_out=left_out, notes=kept, depth_training=True)


def _has_synthetic_data(record: TrialRecord) -> bool:
    workload = record.trial.workload
    return bool(workload.runs) and workload.data.source is DataSource.synthetic


def _point(
    curves: Sequence[LearningCurve], series: dict[str, ObservedSeries], target_loss: float | None, target: float | None
) -> PointLearningFit:
    first = curves[0]
    point = first.record.trial.point
    accuracy = first.record.trial.measure.accuracy
    if target is None and accuracy and target_loss is None:
        target = accuracy.target
    steps, losses = _merge_curves(curves, "losses")
    fit, reach, failure = None, None, ""
    try:
        fit = fit_loss(steps, losses)
        reach = _reach(curves, fit, target_loss, target)
    except FitError as error:
        failure = str(error)
    reached_steps, reached_s = _time_to_target(curves, target_loss, target)
    measured = series[point.series].at(point.workers) if point.series in series else None
    return PointLearningFit(
        point=point,
        kind=first.kind,
        curves=tuple(curves),
        fit=fit,
        failure=failure,
        ahead_error=_ahead(curves),
        half=_half(curves),
        target=target_loss if target_loss is not None else target,
        reach=reach,
        reached_steps=reached_steps,
        reached_s=reached_s,
        step_s=_step_s(curves) or (measured.batch / measured.throughput if measured else None),
    )


def _merge_curves(curves: Sequence[LearningCurve], field: str) -> tuple[list[float], list[float]]:
    steps = np.concatenate([curve.steps for curve in curves])
    values: Array = np.concatenate([getattr(curve, field) for curve in curves])
    order = np.argsort(steps, kind="stable")
    return steps[order].tolist(), values[order].tolist()


def _reach(
    curves: Sequence[LearningCurve], fit: LossFit, target_loss: float | None, target: float | None
) -> StepsToTarget | None:
    if target_loss is not None:
        return fit.steps_to(target_loss)
    if target is None or any(curve.accuracies is None for curve in curves):
        return None
    return steps_to_accuracy(fit_accuracy(*_merge_curves(curves, "accuracies")), target)


def _time_to_target(
    curves: Sequence[LearningCurve], target_loss: float | None, target: float | None
) -> tuple[float | None, float | None]:
    firsts = []
    for curve in curves:
        at = curve.first_at(target_loss, target)
        if at is None:
            return None, None
        firsts.append((float(curve.steps[at]), None if curve.seconds is None else float(curve.seconds[at])))
    seconds = [second for _, second in firsts if second is not None]
    return float(np.median([step for step, _ in firsts])), float(np.median(seconds)) if seconds else None


def _step_s(curves: Sequence[LearningCurve]) -> float | None:
    """Seconds per step while training to accuracy: with real data, unlike the timed windows."""
    known = [curve.seconds[-1] / curve.steps[-1] for curve in curves if curve.seconds is not None and curve.steps[-1]]
    return float(np.median(known)) if known else None


def _ahead(curves: Sequence[LearningCurve]) -> float | None:
    errors = []
    for curve in curves:
        try:
            (refit,) = refits(curve.steps.tolist(), curve.losses.tolist(), (HALF,))
        except FitError:
            return None
        errors.append(refit.ahead_error)
    return mean_absolute(errors)


def _half(curves: Sequence[LearningCurve]) -> LossFit | None:
    """The curve through all points up to the middle of the longest run."""
    steps, losses = _merge_curves(curves, "losses")
    seen = sum(step <= HALF * steps[-1] for step in steps)
    try:
        return fit_loss(steps[:seen], losses[:seen])
    except FitError:
        return None


def depth_of(
    curves: Sequence[LearningCurve], notes: list[str]
) -> tuple[DepthRegression | None, tuple[LeftOutDepth, ...]]:
    """The effect of model size and device on the curves of one bundle or several, and curves of left-out depths.

    Reasons why there is none are added to ``notes``.
    """
    runs = []
    for curve in curves:
        if curve.record.parameters:
            try:
                fit = fit_loss(curve.steps.tolist(), curve.losses.tolist())
            except FitError:
                continue
            depth, family = depth_and_family(curve.record.trial.workload.model)
            size, device = curve.record.parameters, curve.device
            runs.append(LossRun(curve.trial.name, fit, curve.steps, curve.losses, depth, size, device, family))
    if len({run.parameters for run in runs}) < 2:
        return None, ()
    depths = sorted({run.depth for run in runs if run.depth is not None})
    left_out: list[LeftOutDepth] = []
    for left in depths if len(depths) > 2 else ():
        try:
            left_out += leave_out_depth(runs, left)
        except FitError as error:
            notes.append(str(error))
    return regress(runs), tuple(left_out)


def _critical(points: Sequence[PointLearningFit], notes: list[str]) -> SumFit | None:
    """Critical batch from points of one program that reached the same target with different global batches."""
    programs = {tuple((name, v) for name, v in p.point.axes.items() if not name.startswith("batch.")) for p in points}
    if len(programs) > 1:
        return None
    known = [
        (float(p.point.global_batch), p.reached_steps)
        for p in points
        if p.point.global_batch and p.reached_steps is not None
    ]
    if len({batch for batch, _ in known}) < 2:
        return None
    try:
        return fit_critical_batch([batch for batch, _ in known], [steps for _, steps in known])
    except FitError as error:
        notes.append(str(error))
        return None
