"""``scalecurve predict``: the models of the numbers on the command line alone, and the way to ``predict PATH``."""

from __future__ import annotations

from pathlib import Path

import click

from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import Real, fail, output_option, plot_option, save_plot, show
from scalecurve.cli.verbs import Verb
from scalecurve_api.registry import Registry
from scalecurve_models.cli.arguments import (
    device_option,
    input_errors,
    integers,
    numbers,
    precision_option,
)

PREDICTORS: Registry[Verb] = Registry(
    "scalecurve.predictors",
    "model",
    Verb,
    {
        "paleo": Verb(
            "scalecurve_models.cli.predict_paleo:paleo", "Layer by layer from FLOPs and bytes (Qi et al., ICLR 2017)."
        ),
        "scaling": Verb(
            "scalecurve_models.cli.predict_path", "Any worker count from a measured bundle, by every model."
        ),
        "collective": Verb(
            "scalecurve_models.cli.predict:collective", "All-reduce time by algorithm from latency, bandwidth."
        ),
        "optimus": Verb(
            "scalecurve_models.cli.predict:optimus", "Speed by workers, servers; time to a loss (EuroSys 2018)."
        ),
        "roofline": Verb(
            "scalecurve_models.cli.predict:roofline", "Lower bound on the time of a piece of work on a device."
        ),
    },
)
PATH_COMMAND = ""  # name of the command for an argument that names no model: a path


class PredictGroup(click.Group):
    """Takes the models from their table, so that help imports none; anything else is a path, such as ./paleo."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in PREDICTORS and args[0] not in ("-h", "--help"):
            args = [PATH_COMMAND, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PREDICTORS.names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name or "scaling"
        predictor = PREDICTORS.loadable().get(name)
        return predictor.command() if predictor else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl([(name, predictor.help) for name, predictor in PREDICTORS.loadable().items()])


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
@plot_option
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
    folder: Path | None,
    output: str,
) -> None:
    """Show the time of an all-reduce by each algorithm, from latency and bandwidth alone.

    --plot draws a parameter server against the ring over the number of processes.
    """
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
        if folder is not None:
            from scalecurve_models.collectives.server_against_ring import server_against_ring

            link = between if nodes > 1 else within
            save_plot(folder, "server-against-ring", lambda: server_against_ring(counts, bytes_, link), output)


@click.command("optimus")
@click.option("--theta", required=True, metavar="T,T", help="Speed coefficients: five (sync) or four (async).")
@click.option("--workers", required=True, metavar="N,N", help="Worker counts: 1,2,4,8.")
@click.option("--servers", default="1", show_default=True, metavar="N,N", help="Parameter servers: 2,4.")
@click.option("--batch", type=Real(min=1e-9), help="Global batch M; required for sync.")
@click.option("--loss", metavar="B,B,B", help="b0,b1,b2 of the loss curve: adds the time to --target-loss.")
@click.option("--target-loss", type=Real(min=1e-300), help="Loss to reach, with --loss.")
@plot_option
@output_option
def optimus(
    theta: str,
    workers: str,
    servers: str,
    batch: float | None,
    loss: str | None,
    target_loss: float | None,
    folder: Path | None,
    output: str,
) -> None:
    """Predict training speed over workers and parameter servers (Optimus, EuroSys 2018), and the time to a loss.

    --plot draws the time to the loss, or the speed, over workers: a curve for each number of servers.
    """
    from scalecurve_models.optimus.table import speed_table, steps_to_loss

    if (loss is None) != (target_loss is None):
        fail("--loss and --target-loss require each other", EXIT_INPUT)
    with input_errors():
        coefficients, counts, by_servers = (
            numbers(theta, "--theta"),
            integers(workers, "--workers"),
            integers(servers, "--servers"),
        )
        curve = None if loss is None else numbers(loss, "--loss")
        show([speed_table(coefficients, counts, by_servers, batch, curve, target_loss)], output)
        if folder is not None:
            from scalecurve_models.optimus.plot import draw_speed

            steps = steps_to_loss(curve, target_loss)
            save_plot(folder, "optimus", lambda: draw_speed(coefficients, counts, by_servers, batch, steps), output)


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
