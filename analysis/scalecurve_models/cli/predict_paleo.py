"""``scalecurve predict paleo``: a network on a device and a link, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, plot_option, save_plot, show
from scalecurve.cli.price import price_options
from scalecurve_models.cli.arguments import (
    device_option,
    input_errors,
    input_option,
    integers,
    network_named,
    platform_of,
    ppp_options,
    precision_option,
)

if TYPE_CHECKING:
    from scalecurve.cli.price import PriceOverride
    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import Cost
    from scalecurve_models.comparison.compare_models import CostBasis
    from scalecurve_models.networks import Network
    from scalecurve_models.paleo.scaling import Platform, Scaling
    from scalecurve_models.paleo.terms import Revision, Variant

    Prediction = tuple[list[dict[str, Any]], list[Table]]
    """Rows for JSON, and tables of the same."""


@click.command("paleo")
@click.option("--network", "net", required=True, help="A shipped network, a file, or package.module:name of torch.")
@device_option
@click.option(
    "--link", default="ethernet20", show_default=True, help="A shipped link, a .yaml file, or a rate such as 25gbps."
)
@click.option("--batch", type=int, required=True, help="Global batch (strong), or batch per worker (weak, hybrid).")
@click.option("--scaling", default="weak", show_default=True, help="strong or weak.")
@click.option("--workers", help="Worker counts: 1,2,4,8.  [default: 1; the network's own for --parallel model]")
@ppp_options
@click.option(
    "--revision", default="head", show_default=True, help="Revision of the authors' code: head (2018), release (2016)."
)
@precision_option
@click.option("--parallel", default="data", show_default=True, help="data, model or hybrid.")
@input_option
@click.option("--pipeline", is_flag=True, help="Overlap compute and memory traffic within a layer.")
@click.option("--corrected", is_flag=True, help="Correct the errors in the authors' arithmetic (docs: Paleo).")
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="CSV of batch,step_ms[,workers]: one-worker steps calibrate the PPP, others are compared with Paleo.",
)
@click.option("--plus", is_flag=True, help="Paleo+: adds latency, overlap and the ring to Paleo.")
@click.option(
    "--overlap", type=Real(min=1, max=10), help="With --plus: from 1 (none) to 10 (nearly all).  [default: 1]"
)
@click.option("--latency-us", type=Real(min=0, max=1e6), help="With --plus: microseconds per message.  [default: 0]")
@click.option("--scheme", help="With --plus: ring, tree, butterfly or one_to_all.  [default: ring]")
@price_options
@plot_option
@output_option
def paleo(output: str, price: PriceOverride, folder: Path | None, **values: Any) -> None:
    """Predict step time, throughput, run time and cost layer by layer, from FLOPs and bytes.

    Run time and cost are of --epochs of --dataset-samples; else of one epoch, or a million samples. --plot draws them,
    throughput and speed-up over the workers.

    JSON has ``rows``, one per worker count.
    """
    arguments = _Arguments(**values, cost=price.source_price("predict paleo"))
    if folder is not None and arguments.parallel == "hybrid":
        fail("--plot: does not apply to --parallel hybrid, whose parts have no throughput", EXIT_INPUT)
    with input_errors():
        rows, tables = _predict(arguments)
    show([] if output == "json" else price.annotate(tables), output, {"rows": rows})
    if folder is not None:
        from scalecurve_models.paleo.plot import draw_paleo

        save_plot(folder, "paleo", lambda: draw_paleo(rows, arguments.work, tables[0].title), output)


@dataclass(frozen=True)
class _Arguments:
    net: str
    size: str | None
    device: str
    link: str
    batch: int
    scaling: Scaling
    workers: str | None
    ppp_comp: float | None
    ppp_comm: float | None
    software: str
    revision: Revision
    precision: str
    parallel: str
    pipeline: bool
    corrected: bool
    measured: Path | None
    plus: bool
    overlap: float | None
    latency_us: float | None
    scheme: str | None
    cost: Cost | None

    @property
    def work(self) -> CostBasis:
        from scalecurve_models.comparison.compare_models import work_of

        return work_of(self.cost)

    @property
    def variant(self) -> Variant:
        from scalecurve_models.paleo.terms import Variant

        return Variant(self.revision, self.corrected, self.pipeline)

    def platform(self) -> Platform:
        return platform_of(self.device, self.link, self.ppp_comp, self.ppp_comm, self.software, self.precision)

    def check(self) -> None:
        for option in ("overlap", "latency_us", "scheme"):
            if getattr(self, option) is not None and not self.plus:
                fail(f"--{option.replace('_', '-')} requires --plus", EXIT_INPUT)
        if self.parallel not in ("data", "model", "hybrid"):
            fail(f"--parallel {self.parallel!r}: expected one of data, model, hybrid", EXIT_INPUT)
        if self.plus and self.parallel != "data":
            fail("--plus supports data parallelism only", EXIT_INPUT)


def _predict(arguments: _Arguments) -> Prediction:
    network = network_named(arguments.net, arguments.size)
    alone = network.splits if arguments.parallel == "model" else 1
    workers = [alone] if arguments.workers is None else integers(arguments.workers, "--workers")
    platform = arguments.platform()
    arguments.check()
    measured_tables: list[Table] = []
    if arguments.measured is not None:
        platform, measured_tables = _calibrate(arguments, arguments.measured, network, platform)
    predict = _data_parallel if arguments.parallel == "data" else _split
    rows, tables = predict(arguments, network, platform, workers)
    return rows, tables + measured_tables


def _calibrate(arguments: _Arguments, file: Path, network: Network, platform: Platform) -> tuple[Platform, list[Table]]:
    """The platform with the PPP of the one-worker steps; the calibration, and the other steps against Paleo."""
    from scalecurve_models.paleo.calibration import calibrate, read_measured
    from scalecurve_models.paleo.tables import calibration_table, measurement_table

    steps = read_measured(file, network)
    calibration = calibrate([step for step in steps if step.workers == 1], platform, variant=arguments.variant)
    tables = [calibration_table(calibration)]
    if any(step.workers > 1 for step in steps):
        work, variant = arguments.work, arguments.variant
        tables.append(measurement_table(steps, platform, calibration.platform, work, variant=variant))
    return calibration.platform, tables


def _data_parallel(arguments: _Arguments, network: Network, platform: Platform, workers: list[int]) -> Prediction:
    from scalecurve_models.paleo.costs import costs_of
    from scalecurve_models.paleo.plus import PlusTerms, with_plus
    from scalecurve_models.paleo.scaling import predict_scaling
    from scalecurve_models.paleo.tables import plus_table, scaling_table

    batch, scaling, variant, work = arguments.batch, arguments.scaling, arguments.variant, arguments.work
    steps = predict_scaling(network, platform, batch=batch, workers=workers, scaling=scaling, variant=variant)
    if not arguments.plus:
        table = scaling_table(steps, network, platform, scaling, arguments.revision, work)
        return [step.plain() | work.plain(step.throughput, step.workers) for step in steps], [table]
    terms = PlusTerms(arguments.overlap or 1.0, arguments.latency_us or 0.0, arguments.scheme or "ring")
    sent = costs_of(network, variant).parameter_bytes
    plus = [with_plus(step, sent, platform, terms) for step in steps]
    rows = [step.plain() | work.plain(step.throughput, step.paleo.workers) for step in plus]
    return rows, [plus_table(plus, network, platform, scaling, work)]


def _split(arguments: _Arguments, network: Network, platform: Platform, workers: list[int]) -> Prediction:
    from scalecurve_models.paleo.parallel import predict_hybrid, predict_model_scaling
    from scalecurve_models.paleo.tables import hybrid_table, model_parallel_table

    batch, variant = arguments.batch, arguments.variant
    if arguments.parallel == "model":
        work = arguments.work
        steps = predict_model_scaling(network, platform, batch=batch, workers=workers, variant=variant)
        table = model_parallel_table(steps, network, platform, work, variant)
        return [step.plain() | work.plain(step.throughput, step.workers) for step in steps], [table]
    parts = [
        part for n in workers for part in predict_hybrid(network, platform, batch=batch, workers=n, variant=variant)
    ]
    return [vars(part) for part in parts], [hybrid_table(parts, network, platform)]
