"""The options that name a cluster and a namespace."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from scalecurve_kube.address import ClusterAddress

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(function: F) -> F:
    """``-n NS --context C --kubeconfig F``, passed to the function as one ``address``."""

    def collected(*, namespace: str | None, context: str | None, kubeconfig: Path | None, **rest: Any) -> Any:
        return function(address=ClusterAddress(namespace, context, kubeconfig), **rest)

    collected.__name__, collected.__doc__ = function.__name__, function.__doc__
    collected.__dict__.update(function.__dict__)
    for option in (
        click.option("--kubeconfig", type=click.Path(path_type=Path), help="[default: $KUBECONFIG, ~/.kube/config]"),
        click.option("--context", metavar="NAME", help="Kubeconfig context.  [default: the current one]"),
        click.option("-n", "--namespace", metavar="NS", help="Namespace of the experiment.  [default: the context's]"),
    ):
        collected = option(collected)
    return collected  # type: ignore[return-value]  # click calls it by keyword
