"""A check of a cluster: the experiment's name is short enough for a site that prefixes it."""

from collections.abc import Iterator

from scalecurve.cluster.doctor import ClusterCheck, DoctorContext

MOST = 20


def named(context: DoctorContext) -> Iterator[ClusterCheck]:
    """Check the name of the experiment, if there is one."""
    if context.experiment is not None:
        name = context.experiment.metadata.name
        yield ClusterCheck("name", name, len(name) <= MOST, f"shorten it to {MOST} letters" * (len(name) > MOST))
