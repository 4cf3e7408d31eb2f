"""Objects made small once they were looked at.

kopf holds every object that it has shown for a while, whole and in a task of its own: at a start beside thousands of
finished trials that was most of the operator's memory.
"""

from __future__ import annotations

from scalecurve_api.spec.trial import FINAL_PHASES
from scalecurve_kube.client import EXPERIMENTS, Object

_FINAL = frozenset(phase.value for phase in FINAL_PHASES)
_UNREAD = ("managedFields", "ownerReferences", "annotations")


def shed(body: Object, plural: str) -> None:
    """Empty, in place, what ``Sightings`` has not kept of an object of this kind, so that whoever holds it holds less.

    An experiment is kept whole, and so is the status of a job, and of a trial that has not ended.
    """
    metadata, status = body["metadata"], body.get("status") or {}
    if plural == EXPERIMENTS.plural:
        metadata.pop("managedFields", None)
        return
    for name in _UNREAD:
        metadata.pop(name, None)
    (body.get("spec") or {}).clear()
    if status.get("phase") in _FINAL:
        status.clear()
