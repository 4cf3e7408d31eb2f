"""Follow an experiment until it ends, by polling: a lost connection loses nothing."""

import time
from collections.abc import Callable

from scalecurve.cluster.experiments import ExperimentNotFoundError, Watched, read
from scalecurve_kube.blocking import BlockingCluster
from scalecurve_kube.errors import ApiStatusError, ClusterError

Show = Callable[[Watched], None]


class ExperimentDeletedError(ExperimentNotFoundError):
    """The experiment was deleted while it was watched."""


def watch(
    cluster: BlockingCluster,
    watched: Watched,
    show: Show,
    unreachable: Callable[[str], None],
    *,
    every: float = 2.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Watched:
    """Show snapshots of an experiment in a cluster until it has ended.

    Args:
        cluster: The cluster.
        watched: The experiment in it.
        show: Called with every snapshot.
        unreachable: Called with the reason when the API server does not answer; polling continues.
        every: Seconds between snapshots.
        sleep: Waits that long.

    Returns:
        The last snapshot.

    Raises:
        ExperimentDeletedError: when the experiment is gone, or another one has its name now.
        ApiStatusError: when the server no longer lets us look.
    """
    while True:
        show(watched)
        if watched.ended:
            return watched
        sleep(every)
        try:
            now = read(cluster, watched.name)
        except ExperimentNotFoundError as error:
            raise ExperimentDeletedError(f"{watched.name} was deleted from namespace {cluster.namespace}") from error
        except ApiStatusError as error:
            if error.status < 500:
                raise
            unreachable(str(error))
            continue
        except ClusterError as error:
            unreachable(str(error))
            continue
        if now.experiment.metadata.uid != watched.experiment.metadata.uid:
            raise ExperimentDeletedError(f"{watched.name} was deleted, and a new experiment has the same name")
        watched = now


def change_line(watched: Watched) -> str:
    """One line that changes whenever something noteworthy changed."""
    running = ", ".join(
        f"{trial.get('point')} {str(trial.get('phase', '')).lower()}"
        + (f" (attempt {trial['attempt']})" if (trial.get("attempt") or 1) > 1 else "")
        for trial in watched.status.get("current") or []
    )
    return watched.headline + (f"; now: {running}" if running else "")
