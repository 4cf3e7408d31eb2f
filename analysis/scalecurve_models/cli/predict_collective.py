"""``scalecurve predict collective``."""

import click

from scalecurve.cli.output import Real, output_option, show
from scalecurve_models.cli.arguments import input_errors, integers


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
def command(
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
