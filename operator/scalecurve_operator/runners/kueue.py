"""Kueue: a job with the label of a local queue, created suspended; Kueue alone lets it go.

A job that Kueue evicts is suspended again, loses its pods and starts from nothing when it is admitted next: it reads as
queued then, and its attempt counts as one, for nothing of the first start is kept.
"""

from __future__ import annotations

from scalecurve_operator.runners.request import Request

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def queue_labels(request: Request) -> dict[str, str]:
    """Labels of a job for the experiment's queue."""
    return {QUEUE_LABEL: request.spec.queue} if request.spec.queue else {}
