"""How a verb ends that cannot use a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail
from scalecurve.cluster.experiments import NotThere
from scalecurve_kube.errors import ClusterError, Refused, Unreachable

_HINTS = {401: "log in again, or use another --context", 403: "request this right, or use another --context"}


@contextmanager
def cluster_errors() -> Iterator[None]:
    """End the verb with one line: 2 for a name that does not exist, 3 for a cluster that cannot be used."""
    try:
        yield
    except NotThere as error:
        fail(str(error), EXIT_INPUT)
    except ClusterError as error:
        hint = _HINTS.get(error.status) if isinstance(error, Refused) else None
        if isinstance(error, Unreachable):
            hint = "is it up, and is --context the right one?"
        fail(f"{error}; {hint}" if hint else str(error), EXIT_ENVIRONMENT)
