"""Trimming objects after they were cached.

kopf holds every object that it has shown for a while, in full and in a task of its own: with thousands of finished
trials that was most of the operator's memory at its start.
"""

from scalecurve_kube.resources import EXPERIMENTS, Object
from scalecurve_operator.cache.cached_objects import FINAL_TRIAL_PHASES

_UNUSED = ("managedFields", "ownerReferences", "annotations")


def trim(body: Object, plural: str) -> None:
    """Empty, in place, what ``ObjectCache`` does not keep of an object, so that kopf holds less.

    The cache keeps an experiment in full, and so the status of a job, and of a trial that has not ended.
    """
    metadata, status = body["metadata"], body.get("status") or {}
    if plural == EXPERIMENTS.plural:
        metadata.pop("managedFields", None)
        return
    for name in _UNUSED:
        metadata.pop(name, None)
    (body.get("spec") or {}).clear()
    if status.get("phase") in FINAL_TRIAL_PHASES:
        status.clear()
