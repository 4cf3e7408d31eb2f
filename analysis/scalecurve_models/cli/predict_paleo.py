"""``scalecurve predict paleo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scalecurve.cli import EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, show
from scalecurve_models.cli.arguments import network_named, refusals, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalecurve.render.table import Table
    from scalecurve_models.networks import Network
    from scalecurve_models.paleo.calibration import Calibration
    from scalecurve_models.paleo.scaling import Platform


@click.command("paleo")
@click.option("--network", "net", required=True, help="A shipped network, a file, or package.module:name of torch.")
@click.option("--device", required=True, help="A shipped device, or a .yaml file with one.")
@click.option(
    "--link", default="ethernet20", show_default=True, help="A shipped link, a .yaml file, or a rate: 25gbps."
)
@click.option("--batch", type=int, required=True, help="Global batch (strong), or batch of each worker (weak, hybrid).")
@click.option("--scaling", default="weak", show_default=True, help="strong or weak.")
@click.option("--workers", default="1", show_default=True, help="Numbers of workers: 1,2,4,8.")
@click.option("--ppp-comp", type=float, help="Share of the device's peaks that is reached.  [default: the software's]")
@click.option("--ppp-comm", type=float, help="Share of the link's peak that is reached.  [default: the software's]")
@click.option(
    "--software", default="tensorflow", show_default=True, help="Shares of 2016: tensorflow, mxnet, caffe, peak."
)
@click.option(
    "--revision", default="head", show_default=True, help="Of the authors' code: head (2018) or release (2016)."
)
@click.option("--precision", default="fp32", show_default=True, help="fp32, tf32, bf16 or fp16.")
@click.option("--parallel", default="data", show_default=True, help="data, model or hybrid.")
@click.option("--input", "size", help="Another input size: 224x224.")
@click.option("--pipeline", is_flag=True, help="Overlap computing and memory within a layer.")
@click.option(
    "--corrected", is_flag=True, help="Leave out the mistakes of the authors' arithmetic (docs/explanation/paleo.md)."
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="CSV of batch,step_ms[,workers]: steps of one worker calibrate PPP, others are set beside Paleo.",
)
@click.option("--per-worker-hour", type=Real(min=0, max=1e6), help="With --measured: a price, for the cost.")
@click.option("--plus", is_flag=True, help="Paleo+: latency, overlap, and the ring; not Paleo.")
@click.option("--overlap", type=Real(min=1, max=10), help="With --plus: 1 none, 10 nearly all.  [default: 1]")
@click.option("--latency-us", type=Real(min=0, max=1e6), help="With --plus: microseconds a message.  [default: 0]")
@click.option("--scheme", help="With --plus: ring, tree, butterfly or one_to_all.  [default: ring]")
@output_option
def command(output: str, **given: Any) -> None:
    """Predict step time and throughput layer by layer, from FLOPs and bytes.

    JSON is a list of rows, one for each number of workers.
    """
    from scalecurve.render.table import to_json

    with refusals():
        rows, tables = _predicted(**given)
    if output == "json":
        click.echo(to_json(rows), nl=False)
    else:
        show(tables, output)


def _predicted(**given: Any) -> tuple[list[dict[str, Any]], list[Table]]:
    from scalecurve_models.paleo.terms import revision_of

    network = network_named(given["net"], given["size"])
    workers = whole_numbers(given["workers"], "--workers")
    platform = _platform(given)
    revision = revision_of(given["revision"])
    plus_only = [name for name in ("overlap", "latency_us", "scheme") if given[name] is not None]
    if plus_only and not given["plus"]:
        fail(f"--{plus_only[0].replace('_', '-')} belongs to Paleo+: add --plus", EXIT_INPUT)
    common = {"batch": given["batch"], "revision": revision, "corrected": given["corrected"]}
    calibration, beside = None, None
    if given["measured"] is not None:
        calibration, beside = _calibrated(given["measured"], network, platform, given, revision)
        platform = calibration.platform
    elif given["per_worker_hour"] is not None:
        fail("--per-worker-hour goes with --measured", EXIT_INPUT)
    if given["parallel"] == "data":
        rows, tables = _data_parallel(network, platform, workers, given, common)
    elif given["parallel"] in ("model", "hybrid"):
        if given["plus"]:
            fail("--plus is for data parallelism", EXIT_INPUT)
        rows, tables = _split(network, platform, workers, given, common)
    else:
        fail(f"--parallel {given['parallel']!r}: known are data, model, hybrid", EXIT_INPUT)
    if calibration is not None:
        from scalecurve_models.paleo.tables import calibration_table

        tables += [calibration_table(calibration), *([beside] if beside else [])]
    return rows, tables


def _platform(given: dict[str, Any]) -> Platform:
    from scalecurve.hardware.devices import find_device, find_link, precision_of
    from scalecurve_models.paleo.scaling import SOFTWARE, Platform

    if given["software"] not in SOFTWARE:
        fail(f"--software {given['software']!r}: known are {', '.join(SOFTWARE)}", EXIT_INPUT)
    comp, comm = SOFTWARE[given["software"]]
    return Platform(
        find_device(given["device"]),
        find_link(given["link"]),
        comp if given["ppp_comp"] is None else given["ppp_comp"],
        comm if given["ppp_comm"] is None else given["ppp_comm"],
        precision_of(given["precision"]),
    )


def _calibrated(
    file: Path, network: Network, platform: Platform, given: dict[str, Any], revision: Any
) -> tuple[Calibration, Table | None]:
    from scalecurve_models.paleo.calibration import calibrate
    from scalecurve_models.paleo.measured import read_measured
    from scalecurve_models.paleo.tables import measured_table

    points = read_measured(file, network)
    of_form = {"revision": revision, "pipeline": given["pipeline"], "corrected": given["corrected"]}
    found = calibrate([point for point in points if point.workers == 1], platform, **of_form)
    if all(point.workers == 1 for point in points):
        return found, None
    price = given["per_worker_hour"]
    return found, measured_table(points, platform, found.platform, per_worker_hour=price, **of_form)


def _data_parallel(
    network: Network, platform: Platform, workers: Sequence[int], given: dict[str, Any], common: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[Table]]:
    from scalecurve_models.paleo.costs import costs_of
    from scalecurve_models.paleo.plus import PlusTerms, with_plus
    from scalecurve_models.paleo.scaling import predict_scaling
    from scalecurve_models.paleo.tables import plus_table, scaling_table

    predictions = predict_scaling(
        network, platform, workers=workers, scaling=given["scaling"], pipeline=given["pipeline"], **common
    )
    if not given["plus"]:
        table = scaling_table(predictions, network, platform, given["scaling"], common["revision"])
        return [prediction.plain() for prediction in predictions], [table]
    terms = PlusTerms(given["overlap"] or 1.0, given["latency_us"] or 0.0, given["scheme"] or "ring")
    sent = costs_of(network, common["revision"], common["corrected"]).parameter_bytes
    plus = [with_plus(prediction, sent, platform, terms) for prediction in predictions]
    return [each.plain() for each in plus], [plus_table(plus, network, platform, given["scaling"])]


def _split(
    network: Network, platform: Platform, workers: Sequence[int], given: dict[str, Any], common: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[Table]]:
    from scalecurve_models.paleo.parallel import predict_hybrid, predict_model_parallel
    from scalecurve_models.paleo.tables import bounds_table, hybrid_table

    if given["parallel"] == "model":
        passes = predict_model_parallel(network, platform, **common)
        return [each.plain() for each in passes], [bounds_table(passes, network, platform)]
    parts = [
        part
        for n in workers
        for part in predict_hybrid(network, platform, workers=n, pipeline=given["pipeline"], **common)
    ]
    return [part.plain() for part in parts], [hybrid_table(parts, network, platform)]
