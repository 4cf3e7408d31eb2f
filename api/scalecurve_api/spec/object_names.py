"""Names and labels of an experiment's objects in a cluster, for the operator and the command line.

A name is a function of what it names, so an object is created once however often that is tried.
"""

import hashlib

EXPERIMENT_LABEL = "scalecurve.dev/experiment"
TRIAL_LABEL = "scalecurve.dev/trial"  # name of the ScalingTrial object
ATTEMPT_LABEL = "scalecurve.dev/attempt"
ROLE_LABEL = "scalecurve.dev/role"
"""On pods: ``worker``, ``launcher``, and beside parameter servers ``chief`` and ``ps``; on ConfigMaps: ``record``."""
MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "scalecurve"

RECORD_KEY = "record"  # binaryData of every record ConfigMap: one part of the envelope's payload
OUTCOME_KEY = "outcome.json"  # data of the first record ConfigMap: what the operator itself observed, an Outcome
MAX_TRIAL_NAME = 45  # leaves room in a DNS label for -a208, and for -worker-4095 behind that
_DIGEST = 8


def trial_name(experiment: str, trial: str) -> str:
    """Name of the ScalingTrial object; readable, unique in the namespace, a DNS label that begins with a letter."""
    name = f"{experiment}-{trial}"
    if not name[0].isalpha():
        name = f"x{name}"
    if len(name) <= MAX_TRIAL_NAME:
        return name
    digest = hashlib.sha256(f"{experiment}/{trial}".encode()).hexdigest()[:_DIGEST]
    repetition = trial.rpartition("-")[2]
    tail = f"-{repetition}-{digest}"
    return name[: MAX_TRIAL_NAME - len(tail)].rstrip("-") + tail


def job_name(trial: str, attempt: int) -> str:
    """Name of the job that carries one attempt of the ScalingTrial object ``trial``."""
    return f"{trial}-a{attempt}"


def record_name(trial: str, attempt: int, content: bytes, part: int) -> str:
    """Name of a ConfigMap that holds one part of an attempt's record.

    ``content`` is what all parts hold, and whose it is: an object that has the name already holds the same.
    """
    return f"{job_name(trial, attempt)}-record-{hashlib.sha256(content).hexdigest()[:_DIGEST]}-{part}"


def labels(experiment: str, trial: str | None = None, attempt: int | None = None) -> dict[str, str]:
    """Labels of a trial, a job, a pod or a record."""
    further = {TRIAL_LABEL: trial, ATTEMPT_LABEL: attempt}
    known = {label: str(value) for label, value in further.items() if value is not None}
    return {MANAGED_LABEL: MANAGER, EXPERIMENT_LABEL: experiment, **known}
