"""Runners: a trial rendered as a job of some kind, and the job's state read back. Pure."""

from __future__ import annotations

from scalebench_api.experiment import ExperimentSpec, Runner
from scalebench_api.trial import TrialSpec
from scalebench_operator.runners.job import IndexedJob
from scalebench_operator.runners.kind import Manifest, RunnerKind
from scalebench_operator.runners.reading import Reading
from scalebench_operator.runners.request import Request, RequestError

__all__ = ["RUNNERS", "Manifest", "Reading", "Request", "RequestError", "RunnerKind", "runner_for"]

RUNNERS: dict[Runner, RunnerKind] = {Runner.job: IndexedJob()}


def runner_for(spec: ExperimentSpec, trial: TrialSpec) -> RunnerKind:
    """The experiment's runner; a Job where it names none, for every cluster has that."""
    return RUNNERS[trial.runner or spec.runner or Runner.job]
