"""``scalecurve predict``: the models of the numbers on the command line alone, and the way to ``predict PATH``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, show
from scalecurve_api.registry import load
from scalecurve_models.cli.arguments import (
    device_option,
    input_errors,
    integers,
    network_named,
    numbers,
    platform_of,
    ppp_options,
    precision_option,
)

_HERE = "scalecurve_models.cli"
# model -> (its command, what it does in a line)
PREDICTORS = {
    "paleo": (f"{_HERE}.predict:paleo", "Layer by layer from FLOPs and bytes (Qi et al., ICLR 2017)."),
    "scaling": (f"{_HERE}.predict_path:command", "Any worker count from a measured bundle, by every model."),
    "collective": (f"{_HERE}.predict:collective", "All-reduce time by algorithm from latency, bandwidth."),
    "optimus": (f"{_HERE}.predict:optimus", "Speed by workers, servers; time to a loss (EuroSys 2018)."),
    "roofline": (f"{_HERE}.predict:roofline", "Lower bound on the time of a piece of work on a device."),
}
PATH_COMMAND = ""  # name of the command for an argument that names no model: a path


class PredictGroup(click.Group):
    """Takes the models from their table, so that help imports none; anything else is a path, such as ./paleo."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in PREDICTORS and args[0] not in ("-h", "--help"):
            args = [PATH_COMMAND, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PREDICTORS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        reference, _ = PREDICTORS.get("scaling" if cmd_name == PATH_COMMAND else cmd_name, (None, ""))
        command: click.Command | None = load(reference) if reference else None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl([(name, summary) for name, (_, summary) in PREDICTORS.items()])


@click.group("predict", cls=PredictGroup, subcommand_metavar="EXPERIMENT|BUNDLE|POINTS.csv|MODEL [OPTIONS]")
def command() -> None:
    """Predict step time, throughput, run time and cost at any worker count.

    scalecurve predict experiment.yaml --device H200 --link nvlink4 --workers 8,16,64 predicts before anything has run;
    scalecurve predict BUNDLE --workers 8,16,64 predicts from measurements, with every model; POINTS.csv from
    throughputs measured anywhere, with an interval or a refusal. A model name uses that model alone. For the options:
    scalecurve predict PATH --help.
    """


@click.command("collective")
@click.option("--bytes", "sizes", required=True, metavar="S,S", help="Message sizes in bytes: 8,1048576.")
@click.option("--workers", required=True, metavar="N,N", help="Numbers of ranks: 2,4,8.")
@click.option("--alpha-us", type=Real(min=0), required=True, help="Latency per message in microseconds.")
@click.option("--gb-s", type=Real(min=1e-9), required=True, help="Send bandwidth per rank in GB/s (1 GB is 1e9 bytes).")
@click.option("--gamma-gb-s", type=Real(min=1e-9), help="Reduction bandwidth per rank in GB/s.  [default: unlimited]")
@click.option("--servers", type=click.IntRange(min=1), default=1, show_default=True, help="Sharded parameter servers.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Nodes the ranks spread over.")
@click.option("--alpha-out-us", type=Real(min=0), help="Latency per message between nodes.  [default: --alpha-us]")
@click.option("--out-gb-s", type=Real(min=1e-9), help="Bandwidth between nodes in GB/s.  [default: --gb-s]")
@output_option
def collective(
    sizes: str,
    workers: str,
    alpha_us: float,
    gb_s: float,
    gamma_gb_s: float | None,
    servers: int,
    nodes: int,
    alpha_out_us: float | None,
    out_gb_s: float | None,
    output: str,
) -> None:
    """Show the time of an all-reduce by each algorithm, from latency and bandwidth alone."""
    from scalecurve_models.collectives.costs import LinkCost
    from scalecurve_models.collectives.tables import cost_table

    within = LinkCost(alpha_us * 1e-6, 1e-9 / gb_s)
    between = LinkCost(
        within.alpha if alpha_out_us is None else alpha_out_us * 1e-6,
        within.beta if out_gb_s is None else 1e-9 / out_gb_s,
    )
    gamma = 0.0 if gamma_gb_s is None else 1e-9 / gamma_gb_s
    counts, bytes_ = integers(workers, "--workers"), integers(sizes, "--bytes")
    with input_errors():
        show([cost_table(counts, bytes_, within, between, gamma=gamma, nodes=nodes, servers=servers)], output)


@click.command("optimus")
@click.option("--theta", required=True, metavar="T,T", help="Speed coefficients: five (sync) or four (async).")
@click.option("--workers", required=True, metavar="N,N", help="Worker counts: 1,2,4,8.")
@click.option("--servers", default="1", show_default=True, metavar="N,N", help="Parameter servers: 2,4.")
@click.option("--batch", type=Real(min=1e-9), help="Global batch M; required for sync.")
@click.option("--loss", metavar="B,B,B", help="b0,b1,b2 of the loss curve: adds the time to --target-loss.")
@click.option("--target-loss", type=Real(min=1e-300), help="Loss to reach, with --loss.")
@output_option
def optimus(
    theta: str,
    workers: str,
    servers: str,
    batch: float | None,
    loss: str | None,
    target_loss: float | None,
    output: str,
) -> None:
    """Predict training speed over workers and parameter servers (Optimus, EuroSys 2018), and the time to a loss."""
    from scalecurve_models.optimus.table import speed_table

    if (loss is None) != (target_loss is None):
        fail("--loss and --target-loss require each other", EXIT_INPUT)
    with input_errors():
        table = speed_table(
            numbers(theta, "--theta"),
            integers(workers, "--workers"),
            integers(servers, "--servers"),
            batch,
            None if loss is None else numbers(loss, "--loss"),
            target_loss,
        )
        show([table], output)


@click.command("roofline")
@device_option
@precision_option
@click.option("--flops", type=Real(min=0), required=True, help="FLOPs of the work; a multiply-add counts as two.")
@click.option("--bytes", "moved", type=Real(min=0), required=True, help="Bytes moved through memory.")
@output_option
def roofline(device: str, precision: str, flops: float, moved: float, output: str) -> None:
    """Show the lower bound on the time of some work on a device, and whether compute or memory sets it."""
    from scalecurve_models.projection.roofline.bound import roofline_table

    with input_errors():
        show([roofline_table(device, precision, flops, moved)], output)


if TYPE_CHECKING:
    from scalecurve.render.table import Table
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
@click.option("--workers", default="1", show_default=True, help="Worker counts: 1,2,4,8.")
@ppp_options
@click.option(
    "--revision", default="head", show_default=True, help="Revision of the authors' code: head (2018), release (2016)."
)
@precision_option
@click.option("--parallel", default="data", show_default=True, help="data, model or hybrid.")
@click.option("--input", "size", help="Another input size: 224x224.")
@click.option("--pipeline", is_flag=True, help="Overlap compute and memory traffic within a layer.")
@click.option("--corrected", is_flag=True, help="Correct the errors in the authors' arithmetic (docs: Paleo).")
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="CSV of batch,step_ms[,workers]: one-worker steps calibrate the PPP, others are compared with Paleo.",
)
@click.option("--per-worker-hour", type=Real(min=0, max=1e6), help="With --measured: price for the cost columns.")
@click.option("--plus", is_flag=True, help="Paleo+: adds latency, overlap and the ring to Paleo.")
@click.option(
    "--overlap", type=Real(min=1, max=10), help="With --plus: from 1 (none) to 10 (nearly all).  [default: 1]"
)
@click.option("--latency-us", type=Real(min=0, max=1e6), help="With --plus: microseconds per message.  [default: 0]")
@click.option("--scheme", help="With --plus: ring, tree, butterfly or one_to_all.  [default: ring]")
@output_option
def paleo(output: str, **values: Any) -> None:
    """Predict step time and throughput layer by layer, from FLOPs and bytes.

    JSON has ``rows``, one per worker count.
    """
    with input_errors():
        rows, tables = _predict(_Arguments(**values))
    show([] if output == "json" else tables, output, {"rows": rows})


@dataclass(frozen=True)
class _Arguments:
    net: str
    size: str | None
    device: str
    link: str
    batch: int
    scaling: Scaling
    workers: str
    ppp_comp: float | None
    ppp_comm: float | None
    software: str
    revision: Revision
    precision: str
    parallel: str
    pipeline: bool
    corrected: bool
    measured: Path | None
    per_worker_hour: float | None
    plus: bool
    overlap: float | None
    latency_us: float | None
    scheme: str | None

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
        if self.per_worker_hour is not None and self.measured is None:
            fail("--per-worker-hour requires --measured", EXIT_INPUT)
        if self.parallel not in ("data", "model", "hybrid"):
            fail(f"--parallel {self.parallel!r}: expected one of data, model, hybrid", EXIT_INPUT)
        if self.plus and self.parallel != "data":
            fail("--plus supports data parallelism only", EXIT_INPUT)


def _predict(arguments: _Arguments) -> Prediction:
    network = network_named(arguments.net, arguments.size)
    workers = integers(arguments.workers, "--workers")
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
    from scalecurve_models.paleo.tables import calibration_table, measured_table

    steps = read_measured(file, network)
    calibration = calibrate([step for step in steps if step.workers == 1], platform, variant=arguments.variant)
    tables = [calibration_table(calibration)]
    if any(step.workers > 1 for step in steps):
        price, variant = arguments.per_worker_hour, arguments.variant
        tables.append(measured_table(steps, platform, calibration.platform, per_worker_hour=price, variant=variant))
    return calibration.platform, tables


def _data_parallel(arguments: _Arguments, network: Network, platform: Platform, workers: list[int]) -> Prediction:
    from scalecurve_models.paleo.costs import costs_of
    from scalecurve_models.paleo.plus import PlusTerms, with_plus
    from scalecurve_models.paleo.scaling import predict_scaling
    from scalecurve_models.paleo.tables import plus_table, scaling_table

    batch, scaling, variant = arguments.batch, arguments.scaling, arguments.variant
    steps = predict_scaling(network, platform, batch=batch, workers=workers, scaling=scaling, variant=variant)
    if not arguments.plus:
        table = scaling_table(steps, network, platform, scaling, arguments.revision)
        return [step.plain() for step in steps], [table]
    terms = PlusTerms(arguments.overlap or 1.0, arguments.latency_us or 0.0, arguments.scheme or "ring")
    sent = costs_of(network, variant).parameter_bytes
    plus = [with_plus(step, sent, platform, terms) for step in steps]
    return [step.plain() for step in plus], [plus_table(plus, network, platform, scaling)]


def _split(arguments: _Arguments, network: Network, platform: Platform, workers: list[int]) -> Prediction:
    from scalecurve_models.paleo.parallel import predict_hybrid, predict_model_parallel
    from scalecurve_models.paleo.tables import bounds_table, hybrid_table

    batch, variant = arguments.batch, arguments.variant
    if arguments.parallel == "model":
        passes = predict_model_parallel(network, platform, batch=batch, variant=variant)
        return [bounds.plain() for bounds in passes], [bounds_table(passes, network, platform)]
    parts = [
        part for n in workers for part in predict_hybrid(network, platform, batch=batch, workers=n, variant=variant)
    ]
    return [vars(part) for part in parts], [hybrid_table(parts, network, platform)]
