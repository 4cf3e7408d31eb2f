"""``scalecurve probe [FILE]``."""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from scalecurve.cli.cluster import cluster_errors, cluster_options
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INPUT
from scalecurve.cli.output import Real, fail, load_experiment, output_option, overlay_option, show
from scalecurve_kube.address import ClusterAddress


@click.command("probe")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@overlay_option
@click.option(
    "--node", "nodes", multiple=True, metavar="NAME", help="A node to probe; may be repeated.  [default: all]"
)
@click.option("--workers-per-node", type=click.IntRange(1, 64), help="[default: one per GPU, or one]")
@click.option(
    "--repetitions", type=click.IntRange(1, 50), default=3, show_default=True, help="Runs of each group, for intervals."
)
@click.option(
    "--tolerance",
    type=Real(min=0, max=0.9),
    default=0.1,
    show_default=True,
    help="Share of the rate that a group may lose before it is slow.",
)
@click.option("--write", type=click.Path(path_type=Path), help="Write an overlay that excludes the slow nodes.")
@cluster_options
@output_option
def command(
    file: Path | None,
    overlays: tuple[Path, ...],
    nodes: tuple[str, ...],
    workers_per_node: int | None,
    repetitions: int,
    tolerance: float,
    write: Path | None,
    address: ClusterAddress,
    output: str,
) -> None:
    """Find slow nodes and links of a cluster by running groups of nodes and comparing them.

    About √N groups of √N nodes run the all-reduce, or the workload of an experiment FILE; a slow group is halved until
    a node or a link remains. One slow node among N takes at most 2·√N runs where N is a square. Each run is an
    experiment in the namespace, which the operator there carries out and which is deleted afterwards. Exit code 1 if
    something is slow.
    """
    from scalecurve.cluster.probe import (
        ALL_REDUCE,
        GroupRuns,
        ProbeError,
        candidates,
        culprits,
        leave_out,
        tables,
    )
    from scalecurve.cluster.slow_nodes import AllFailedError, NodeSearch
    from scalecurve_api.spec.experiment import ExperimentSpec
    from scalecurve_kube.blocking import connect

    if overlays and file is None:
        fail("--overlay requires an experiment FILE", EXIT_INPUT)
    tree: dict[str, Any] = ALL_REDUCE
    if file is not None:
        experiment = load_experiment(file, overlays)[0]
        tree = experiment.spec.wire()
        address = replace(address, namespace=address.namespace or experiment.metadata.namespace)
    spec = ExperimentSpec.model_validate(tree)
    with cluster_errors():
        cluster = connect(address)
        try:
            chosen = candidates(cluster, spec, nodes, workers_per_node)
            groups = GroupRuns(
                cluster,
                tree,
                f"probe-{secrets.token_hex(3)}",
                chosen.workers,
                repetitions,
                chosen.gpus,
                lambda line: click.echo(line, err=True),
            )
            search = NodeSearch(groups.run, tolerance)
            search.find(chosen.nodes)
        except ProbeError as error:
            fail(str(error), EXIT_INPUT)
        except AllFailedError as error:
            fail(f"no group of nodes ran: {error}", EXIT_ENVIRONMENT)
    unit = "GB/s, bus bandwidth" if spec.workload.program == "allreduce" else "samples/s"
    show(tables(search, unit), output)
    slow = culprits(search)
    if write is not None:
        import yaml

        write.write_text(yaml.safe_dump(leave_out(slow), sort_keys=False))
        click.echo(f"{write}: excludes {', '.join(slow) or 'nothing'}; use it with --overlay", err=True)
    sys.exit(EXIT_FAILED if slow or search.unresolved else 0)
