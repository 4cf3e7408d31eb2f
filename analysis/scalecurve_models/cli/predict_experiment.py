"""``scalecurve predict EXPERIMENT|BUNDLE``: before anything ran, or from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli import EXIT_INPUT
from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import fail, load_experiment, output_option, overlay_option, show
from scalecurve.cli.price import price_options
from scalecurve_models.cli.arguments import network_named, refusals, whole_numbers
from scalecurve_models.cli.predictors import PREDICTORS

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.cli.price import Asked
    from scalecurve_models.networks import Network
    from scalecurve_models.paleo.paleo_fit import PaleoOnSeries
    from scalecurve_models.paleo.scaling import Platform


@click.command("predict")
@click.argument("path", metavar="EXPERIMENT|BUNDLE", type=click.Path(path_type=Path))
@overlay_option
@click.option("--workers", metavar="N,N", help="Worker counts: 8,16,64.  [default: those of the experiment or bundle]")
@click.option("--device", help="A shipped device, or a .yaml file with one. Needed for an experiment.")
@click.option("--link", help="A shipped link, a .yaml file, or a rate: 25gbps. Goes with --device.")
@click.option("--network", "net", help="Another network than the workload's model: a shipped name, or a file.")
@click.option("--ppp-comp", type=float, help="Share of the device's peaks that is reached.  [default: the software's]")
@click.option("--ppp-comm", type=float, help="Share of the link's peak that is reached.  [default: the software's]")
@click.option(
    "--software", default="tensorflow", show_default=True, help="Shares of 2016: tensorflow, mxnet, caffe, peak."
)
@click.option("--precision", help="Of a bundle with --device.  [default: the workload's]")
@click.option("--hold-out", metavar="N,N", help="Worker counts of a bundle that no fit may see.")
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
    asked: Asked,
    output: str,
) -> None:
    """Predict throughput, run time and cost at any worker count.

    An EXPERIMENT (YAML) is predicted before anything ran, from its network, a device and a link. A BUNDLE is predicted
    by every model that its measurements carry, each with its error at points that it had to predict blindly; with
    --device also by Paleo, as given and calibrated on one worker. A MODEL's name in the place of the path predicts by
    that model alone: see scalecurve predict --help.
    """
    if not path.exists():
        fail(f"{path}: no such experiment, bundle or model (models: {', '.join(PREDICTORS)})", EXIT_INPUT)
    counts = whole_numbers(workers, "--workers") if workers else []
    if device is None and (link or net or precision or ppp_comp is not None or ppp_comm is not None):
        fail("--link, --network, --precision and the PPPs go with --device", EXIT_INPUT)
    from scalecurve.bundle.packed import is_packed

    with refusals():
        platform: Platform | None = None
        if device is not None:
            platform = _platform(device, link, ppp_comp, ppp_comm, software, precision)
        network = network_named(net) if net else None
        if path.is_dir() or is_packed(path):
            if overlays:
                fail("--overlay is for an experiment: a bundle is what was measured", EXIT_INPUT)
            _of_bundle(path, counts, platform, network, precision, hold_out, asked, output)
            return
        if hold_out is not None or precision is not None:
            fail("--hold-out and --precision are for a bundle: an experiment says its own", EXIT_INPUT)
        from scalecurve.curves.cost import merged
        from scalecurve.hardware.devices import devices
        from scalecurve_models.paleo.a_priori import predict_experiment

        experiment, _ = load_experiment(path, overlays)
        if asked.cost is not None:
            spec = experiment.spec.model_copy(update={"cost": merged(asked.cost, experiment.spec.cost)})
            experiment = experiment.model_copy(update={"spec": spec})
        if platform is None:
            fail(
                f"{path}: an experiment does not say on what it will run: give --device (and --link); "
                f"known are {', '.join(devices())}",
                EXIT_INPUT,
            )
        show(asked.noted(predict_experiment(experiment, platform, counts, network)), output)


def _of_bundle(
    path: Path,
    counts: list[int],
    platform: Platform | None,
    network: Network | None,
    precision: str | None,
    hold_out: str | None,
    asked: Asked,
    output: str,
) -> None:
    from scalecurve_models.comparison.tables import extrapolated_tables
    from scalecurve_models.fitting.observations import observed

    (bundle,) = open_all([path])
    held = whole_numbers(hold_out, "--hold-out") if hold_out else []
    wanted = counts or sorted({n for series in observed(bundle) for n in series.workers})
    if not wanted:
        fail(f"{path}: nothing was measured here: there is nothing to predict from", EXIT_INPUT)
    further = _paleo(bundle, platform, network, precision) if platform else None
    tables = extrapolated_tables(bundle, wanted, asked.cost, hold_out=held, further=further)
    show(asked.noted(tables, [bundle]), output)


def _paleo(bundle: Bundle, platform: Platform, network: Network | None, precision: str | None) -> PaleoOnSeries:
    """Paleo for every curve; all of them must have one precision, for there is one platform."""
    from dataclasses import replace

    from scalecurve.hardware.devices import precision_of
    from scalecurve_models.paleo.paleo_fit import PaleoOnSeries
    from scalecurve_models.paleo.workload_network import network_of

    workloads = {trial.spec.point.series: trial.spec.workload for trial in bundle.trials}
    precisions = {workload.precision.value for workload in workloads.values()}
    if precision is None:
        if len(precisions) != 1:
            fail(f"{bundle.label}: trains in {', '.join(sorted(precisions))}: say one with --precision", EXIT_INPUT)
        platform = replace(platform, precision=precision_of(precisions.pop()))
    return PaleoOnSeries(platform, {name: network or network_of(workload) for name, workload in workloads.items()})


def _platform(
    device: str, link: str | None, ppp_comp: float | None, ppp_comm: float | None, software: str, precision: str | None
) -> Platform:
    from scalecurve.hardware.devices import find_device, find_link, precision_of
    from scalecurve_models.paleo.scaling import SOFTWARE, Platform

    if software not in SOFTWARE:
        fail(f"--software {software!r}: known are {', '.join(SOFTWARE)}", EXIT_INPUT)
    comp, comm = SOFTWARE[software]
    return Platform(
        find_device(device),
        find_link(link or "ethernet20"),
        comp if ppp_comp is None else ppp_comp,
        comm if ppp_comm is None else ppp_comm,
        precision_of(precision or "fp32"),
    )
