"""Paleo on measured curves, in the form of every other model: uncalibrated, calibrated, and with overlap.

- ``paleo``: PPPs from the command line, nothing fitted; every point is a blind prediction, including one worker.
- ``paleo-1``: the PPP for compute calibrated on the measured steps of one worker; all other points are blind.
- ``paleo+``: the same plus the ring and an overlap fitted to steps of several workers, leaving each point out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from scalecurve.bundle.open import Bundle
from scalecurve.hardware.devices import precision_of
from scalecurve_models.comparison.series_models import SeriesModel
from scalecurve_models.fitting.least_squares import FitError, Parameter, Prediction
from scalecurve_models.fitting.observations import ObservedPoint, ObservedSeries
from scalecurve_models.networks import Network
from scalecurve_models.networks.catalog import images_per_sample, network_of
from scalecurve_models.paleo.calibration import MeasuredStep, calibrate
from scalecurve_models.paleo.costs import costs_of
from scalecurve_models.paleo.plus import PlusFit, fit_plus, with_plus
from scalecurve_models.paleo.scaling import Platform, predict_step

PALEO, CALIBRATED, PLUS = "paleo", "paleo-1", "paleo+"
EQUATION = "T = forward + backward + update + 2⌈log2 n⌉D/B"
PLUS_EQUATION = "T = (compute^g + ring^g)^(1/g)"

Rate = Callable[[int], float]


@dataclass(frozen=True)
class PaleoModels:
    """The three models for the curves of a bundle; ``networks`` maps curve names to networks.

    ``copies`` maps curve names to the images that are computed for each sample, 1 where it has none.
    """

    platform: Platform
    networks: Mapping[str, Network]
    copies: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, series: Sequence[ObservedSeries]) -> Callable[[ObservedSeries], tuple[SeriesModel, ...]]:
        points = {
            (each.name, point.workers): self._step_measurement(each, point)
            for each in series
            for point in each.points
            if each.name in self.networks
        }
        single = [step for step in points.values() if step.workers == 1]
        several = {key: step for key, step in points.items() if step.workers > 1}
        calibrated: Platform | None = None
        parameters: tuple[Parameter, ...] = ()
        failure, found = "", ""
        try:
            calibration = calibrate(single, self.platform)
            calibrated, parameters = calibration.platform, (calibration.ppp_comp,)
            found = f"{calibration.sentence}, calibrated on the steps of one worker"
        except FitError as error:
            failure = str(error)

        def curve_models(curve: ObservedSeries) -> tuple[SeriesModel, ...]:
            network = self.networks.get(curve.name)
            if network is None:
                return ()
            images = self.copies.get(curve.name, 1)
            plain = _plain(PALEO, curve, network, self.platform, (), images, everywhere=True)
            platform = f"{self.platform.device.title}, {self.platform.precision}, {self.platform.link.title}"
            ppps = f"PPP {self.platform.ppp_comp:g} and {self.platform.ppp_comm:g}, nothing fitted"
            plain = replace(plain, notes=(f"{platform}; {ppps}",))
            if calibrated is None:
                failed = (SeriesModel(name, EQUATION, failure=failure) for name in (CALIBRATED, PLUS))
                return (plain, *failed)
            one = _plain(CALIBRATED, curve, network, calibrated, parameters, images)
            return plain, replace(one, notes=(found,)), _plus(curve, network, calibrated, several, images)

        return curve_models

    def _step_measurement(self, curve: ObservedSeries, point: ObservedPoint) -> MeasuredStep:
        step_ms = point.batch / point.throughput * 1e3
        images = _images(point.batch, point.workers, self.copies.get(curve.name, 1))
        return MeasuredStep(self.networks[curve.name], images, step_ms, point.workers)


def paleo_models(
    bundle: Bundle, platform: Platform, network: Network | None = None, precision: str | None = None
) -> PaleoModels:
    """Paleo for every curve of a bundle, in its own precision, or in the platform's where ``precision`` names that.

    Raises FitError where curves differ in it, for a platform has one; NetworkError for a curve without a network.
    """
    workloads = {trial.spec.point.series: trial.spec.workload for trial in bundle.trials}
    precisions = {workload.precision.value for workload in workloads.values()}
    if precision is None:
        if len(precisions) != 1:
            named = ", ".join(sorted(precisions))
            raise FitError(f"{bundle.label}: uses {named}; choose one with --precision")
        platform = replace(platform, precision=precision_of(precisions.pop()))
    networks = {name: network or network_of(workload) for name, workload in workloads.items()}
    return PaleoModels(platform, networks, {name: images_per_sample(workload) for name, workload in workloads.items()})


def _plain(
    name: str,
    curve: ObservedSeries,
    network: Network,
    platform: Platform,
    parameters: tuple[Parameter, ...],
    copies: int,
    everywhere: bool = False,
) -> SeriesModel:
    def rate(workers: int) -> float:
        batch = curve.batch_at(workers)
        step = predict_step(network, platform, batch=_images(batch, workers, copies), workers=workers)
        return batch / step.step_ms * 1e3

    return _model(name, EQUATION, curve, parameters, rate, {n: rate(n) for n in curve.workers if everywhere or n > 1})


def _plus(
    curve: ObservedSeries,
    network: Network,
    platform: Platform,
    several: Mapping[tuple[str, int], MeasuredStep],
    copies: int,
) -> SeriesModel:
    def rate(fit: PlusFit, workers: int) -> float:
        batch = curve.batch_at(workers)
        step = predict_step(network, platform, batch=_images(batch, workers, copies), workers=workers)
        sent = costs_of(network).parameter_bytes
        return batch / with_plus(step, sent, fit.platform, fit.terms).step_ms * 1e3

    try:
        fitted = fit_plus(list(several.values()), platform)
    except FitError as error:
        return SeriesModel(PLUS, PLUS_EQUATION, failure=str(error))
    left_out: dict[int, float | None] = {}
    for workers in curve.workers:
        if workers == 1:
            continue
        # Exclude this worker count on the other curves of the program too.
        rest = [step for (_, n), step in several.items() if n != workers]
        left_out[workers] = rate(fit_plus(rest, platform), workers) if rest else None
    return _model(PLUS, PLUS_EQUATION, curve, fitted.parameters, partial(rate, fitted), left_out)


def _model(
    name: str,
    equation: str,
    curve: ObservedSeries,
    parameters: tuple[Parameter, ...],
    rate: Rate,
    left_out: Mapping[int, float | None],
) -> SeriesModel:
    return SeriesModel(
        name=name,
        equation=equation,
        parameters=parameters,
        left_out=left_out,
        fitted={n: rate(n) for n in curve.workers},
        measured={point.workers: point.throughput for point in curve.points},
        predict=lambda workers: Prediction(rate(workers)),
    )


def _images(batch: float, workers: int, copies: int) -> int:
    """Images of a worker's share of the batch, which is rounded up as for the slowest one."""
    return max(1, -(-round(batch) // workers)) * copies
