"""Runners: a trial rendered as a job of some kind, and the job's state read back. Pure."""

from __future__ import annotations

from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_operator.runners.job import IndexedJob
from scalecurve_operator.runners.job_state import Reading
from scalecurve_operator.runners.mpi_job import MPIJob
from scalecurve_operator.runners.pytorch_job import PyTorchJob
from scalecurve_operator.runners.request import Request, RequestError
from scalecurve_operator.runners.runner_kind import Manifest, RunnerKind
from scalecurve_operator.runners.tf_job import TFJob

__all__ = ["RUNNERS", "Manifest", "Reading", "Request", "RequestError", "RunnerKind", "runner_for"]

RUNNERS: dict[Runner, RunnerKind] = {
    Runner.job: IndexedJob(),
    Runner.pytorch_job: PyTorchJob(),
    Runner.mpi_job: MPIJob(),
    Runner.tf_job: TFJob(),
}


def runner_for(spec: ExperimentSpec, trial: TrialSpec) -> RunnerKind:
    """The experiment's runner; a Job where it names none, for every cluster has that."""
    return RUNNERS[trial.runner or spec.runner or Runner.job]
