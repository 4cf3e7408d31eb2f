"""The options that name a cluster and a namespace."""

from pathlib import Path

import click

from scalecurve.cli.output import options_as
from scalecurve_kube.address import ClusterAddress

cluster_options = options_as(
    "address",
    ClusterAddress,
    click.option("-n", "--namespace", metavar="NS", help="Namespace of the experiment.  [default: the context's]"),
    click.option("--context", metavar="NAME", help="Kubeconfig context.  [default: the current one]"),
    click.option("--kubeconfig", type=click.Path(path_type=Path), help="[default: $KUBECONFIG, ~/.kube/config]"),
)
