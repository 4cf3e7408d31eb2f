"""``scalecurve predict collective``."""

from __future__ import annotations

import click

from scalecurve.cli.output import Real, output_option, show
from scalecurve_models.cli.arguments import refusals, whole_numbers


@click.command("collective")
@click.option("--bytes", "sizes", required=True, metavar="S,S", help="Message sizes in bytes: 8,1048576.")
@click.option("--workers", required=True, metavar="N,N", help="Ranks that take part: 2,4,8.")
@click.option("--alpha-us", type=Real(min=0), required=True, help="Microseconds a message.")
@click.option("--gb-s", type=Real(min=1e-9), required=True, help="GB/s that a rank sends (1 GB is 1e9 bytes).")
@click.option("--gamma-gb-s", type=Real(min=1e-9), help="GB/s that a rank adds up.  [default: at no cost]")
@click.option("--servers", type=click.IntRange(min=1), default=1, show_default=True, help="Of a sharded server.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="That the ranks spread over.")
@click.option("--alpha-out-us", type=Real(min=0), help="Microseconds a message between nodes.  [default: --alpha-us]")
@click.option("--out-gb-s", type=Real(min=1e-9), help="GB/s between nodes.  [default: --gb-s]")
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
    """Say what an all-reduce costs by each algorithm, from latency and bandwidth alone."""
    from scalecurve_models.collectives.costs import Link
    from scalecurve_models.collectives.tables import cost_table

    within = Link(alpha_us * 1e-6, 1e-9 / gb_s)
    between = Link(
        within.alpha if alpha_out_us is None else alpha_out_us * 1e-6,
        within.beta if out_gb_s is None else 1e-9 / out_gb_s,
    )
    gamma = 0.0 if gamma_gb_s is None else 1e-9 / gamma_gb_s
    with refusals():
        table = cost_table(
            whole_numbers(workers, "--workers"),
            whole_numbers(sizes, "--bytes"),
            within,
            between,
            gamma=gamma,
            nodes=nodes,
            servers=servers,
        )
        show([table], output)
