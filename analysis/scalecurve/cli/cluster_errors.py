"""Clear ends of verbs that ask a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail
from scalecurve.cluster.connection import ClusterError
from scalecurve.cluster.experiments import NotThere


@contextmanager
def cluster_errors() -> Iterator[None]:
    """End the verb with one line: 2 for a name that is not there, 3 for a cluster that cannot be asked."""
    try:
        yield
    except NotThere as error:
        fail(str(error), EXIT_INPUT)
    except ClusterError as error:
        fail(str(error), EXIT_ENVIRONMENT)
