"""``scalecurve predict EXPERIMENT|BUNDLE``: before anything has run, or from measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.bundle.packed import is_packed
from scalecurve.cli.bundles import open_all
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, load_experiment, output_option, overlay_option, show
from scalecurve.cli.price import price_options
from scalecurve_models.cli.arguments import input_errors, integers, network_named, platform_of, ppp_options
from scalecurve_models.cli.predictors import PREDICTORS

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.cli.price import PriceOverride
    from scalecurve_models.networks import Network
    from scalecurve_models.paleo.paleo_fit import PaleoModels
    from scalecurve_models.paleo.scaling import Platform


@click.command("predict")
@click.argument("path", metavar="EXPERIMENT|BUNDLE", type=click.Path(path_type=Path))
@overlay_option
@click.option("--workers", metavar="N,N", help="Worker counts: 8,16,64.  [default: those of the experiment or bundle]")
@click.option("--device", help="A shipped device, or a .yaml file. Required for an experiment.")
@click.option("--link", help="A shipped link, a .yaml file, or a rate such as 25gbps. Requires --device.")
@click.option("--network", "net", help="A network other than the workload's model: a shipped name, or a file.")
@ppp_options
@click.option("--precision", help="For a bundle with --device.  [default: the workload's]")
@click.option("--hold-out", metavar="N,N", help="Worker counts of a bundle to exclude from every fit.")
@price_options
@output_option
def command(
    path: Path,
    overlays: tuple[Path, ...],
    workers: str | None,
    device: str | None,
    link: str | None,
    net: str | None,
    ppp_comp: float | None,
    ppp_comm: float | None,
    software: str,
    precision: str | None,
    hold_out: str | None,
    price: PriceOverride,
    output: str,
) -> None:
    """Predict throughput, run time and cost at any worker count.

    An EXPERIMENT (YAML) is predicted before anything has run, from its network, a device and a link. A BUNDLE is
    predicted by every model that its measurements support, each with its errors at points excluded from its fit; with
    --device also by Paleo, uncalibrated and calibrated on one worker. A MODEL name instead of the path predicts with
    that model alone: see scalecurve predict --help.
    """
    if not path.exists():
        fail(f"{path}: no such experiment, bundle or model (models: {', '.join(PREDICTORS)})", EXIT_INPUT)

    counts = integers(workers, "--workers")
    if device is None and (link or net or precision or ppp_comp is not None or ppp_comm is not None):
        fail("--link, --network, --precision, --ppp-comp and --ppp-comm require --device", EXIT_INPUT)
    with input_errors():
        platform = platform_of(device, link, ppp_comp, ppp_comm, software, precision or "fp32") if device else None
        network = network_named(net) if net else None
        if path.is_dir() or is_packed(path):
            if overlays:
                fail("--overlay applies to experiments only; a bundle holds what was measured", EXIT_INPUT)
            _predict_bundle(path, counts, platform, network, precision, integers(hold_out, "--hold-out"), price, output)
            return
        if hold_out is not None or precision is not None:
            fail("--hold-out and --precision apply to bundles only; an experiment defines its own", EXIT_INPUT)
        from scalecurve.curves.cost import merged
        from scalecurve.hardware.devices import devices
        from scalecurve_models.paleo.a_priori import predict_experiment

        experiment, _ = load_experiment(path, overlays)
        if price.cost is not None:
            spec = experiment.spec.model_copy(update={"cost": merged(price.cost, experiment.spec.cost)})
            experiment = experiment.model_copy(update={"spec": spec})
        if platform is None:
            known = ", ".join(devices())
            fail(f"{path}: --device is required to predict from an experiment (devices: {known})", EXIT_INPUT)
        show(price.annotated(predict_experiment(experiment, platform, counts, network)), output)


def _predict_bundle(
    path: Path,
    counts: list[int],
    platform: Platform | None,
    network: Network | None,
    precision: str | None,
    hold_out: list[int],
    price: PriceOverride,
    output: str,
) -> None:
    from scalecurve_models.comparison.tables import prediction_tables
    from scalecurve_models.fitting.observations import observed_series

    (bundle,) = open_all([path])
    counts = counts or sorted({n for series in observed_series(bundle) for n in series.workers})
    if not counts:
        fail(f"{path}: has no measured points to predict from", EXIT_INPUT)
    extra = _paleo(bundle, platform, network, precision) if platform else None
    tables = prediction_tables(bundle, counts, price.cost, hold_out=hold_out, extra_models=extra)
    show(price.annotated(tables, [bundle]), output)


def _paleo(bundle: Bundle, platform: Platform, network: Network | None, precision: str | None) -> PaleoModels:
    """Paleo for every curve; a platform has one precision, so all curves must share it."""
    from scalecurve.hardware.devices import precision_of
    from scalecurve_models.paleo.paleo_fit import PaleoModels
    from scalecurve_models.paleo.workload_network import network_of

    workloads = {trial.spec.point.series: trial.spec.workload for trial in bundle.trials}
    precisions = {workload.precision.value for workload in workloads.values()}
    if precision is None:
        if len(precisions) != 1:
            fail(f"{bundle.label}: uses {', '.join(sorted(precisions))}; choose one with --precision", EXIT_INPUT)
        platform = replace(platform, precision=precision_of(precisions.pop()))
    return PaleoModels(platform, {name: network or network_of(workload) for name, workload in workloads.items()})
