"""Kueue: a job with the label of a local queue, created suspended; Kueue alone releases it.

A job that Kueue evicts is suspended again, loses its pods and starts from scratch when it is admitted next: it reads as
queued then, and is still the same attempt, because nothing of the first start is kept.
"""

from __future__ import annotations

from scalecurve_operator.runners.job_request import JobRequest

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def queue_labels(request: JobRequest) -> dict[str, str]:
    """Labels of a job for the experiment's queue."""
    return {QUEUE_LABEL: request.spec.queue} if request.spec.queue else {}
