"""Runners: a trial rendered as a job of some kind, and the job's status read back. Pure.

``docs/how-to/add-a-runner.md`` says how to add one, here or in a package of one's own.
"""

from scalecurve_api.registry import Registry
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.job_kinds import DEFAULT_RUNNER
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_operator.runners.job import IndexedJob
from scalecurve_operator.runners.job_request import JobRequest, JobRequestError
from scalecurve_operator.runners.job_set import JobSet
from scalecurve_operator.runners.mpi_job import MPIJob
from scalecurve_operator.runners.runner_kind import JobStatus, Manifest, RunnerKind
from scalecurve_operator.runners.train_job import TrainJob
from scalecurve_operator.runners.training_operator import PyTorchJob, TFJob

__all__ = ["RUNNERS", "JobRequest", "JobRequestError", "JobStatus", "Manifest", "RunnerKind", "runner_for"]

_KINDS: tuple[RunnerKind, ...] = (IndexedJob(), PyTorchJob(), MPIJob(), TFJob(), JobSet(), TrainJob())
RUNNERS: dict[str, RunnerKind] = Registry(
    "scalecurve.runners", "runner", RunnerKind, {kind.runner.value: kind for kind in _KINDS}
).loadable()  # by the job's kind


def runner_for(spec: ExperimentSpec, trial: TrialSpec) -> RunnerKind:
    """The trial's runner: its own, the experiment's, or the default; JobRequestError if no package here renders it."""
    kind = trial.runner or spec.runner or DEFAULT_RUNNER
    if kind not in RUNNERS:
        raise JobRequestError(
            f"spec.runner: got {kind}; no package renders it, by an entry point scalecurve.runners:{kind}"
        )
    return RUNNERS[kind]
