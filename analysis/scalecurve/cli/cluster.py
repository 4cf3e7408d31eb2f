"""What verbs for a cluster share: the options that name it, and how a verb ends that cannot use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail, options_as
from scalecurve_kube.address import ClusterAddress

cluster_options = options_as(
    "address",
    ClusterAddress,
    click.option("-n", "--namespace", metavar="NS", help="Namespace of the experiment.  [default: the context's]"),
    click.option("--context", metavar="NAME", help="Kubeconfig context.  [default: the current one]"),
    click.option("--kubeconfig", type=click.Path(path_type=Path), help="[default: $KUBECONFIG, ~/.kube/config]"),
)
_HINTS = {401: "log in again, or use another --context", 403: "request this right, or use another --context"}


@contextmanager
def cluster_errors() -> Iterator[None]:
    """End the verb with one line: 2 for a name that does not exist, 3 for a cluster that cannot be used."""
    from scalecurve.cluster.experiments import ExperimentNotFoundError
    from scalecurve_kube.errors import ApiStatusError, ClusterError, UnreachableError

    try:
        yield
    except ExperimentNotFoundError as error:
        fail(str(error), EXIT_INPUT)
    except ClusterError as error:
        hint = _HINTS.get(error.status) if isinstance(error, ApiStatusError) else None
        if isinstance(error, UnreachableError):
            hint = "is it up, and is --context the right one?"
        fail(f"{error}; {hint}" if hint else str(error), EXIT_ENVIRONMENT)
