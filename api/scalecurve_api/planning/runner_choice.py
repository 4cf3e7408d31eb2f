"""``runner: auto``: the kind of job that carries an experiment, by what its program needs and what a cluster has.

In order of preference: a plain Job where every point is one pod, because nothing has to be coordinated; JobSet, which
carries every program and restarts nothing; TrainJob, on a runtime of the platform's; the kind of an older job operator
that is made for the program; a plain Job for the rest.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from scalecurve_api.planning.plan import Plan
from scalecurve_api.problem import Violation, unsupported
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.job_kinds import DEFAULT_RUNNER, JobKind, Runner


@dataclass(frozen=True)
class RunnerChoice:
    """A kind of job that can carry every trial of an experiment, and why it is preferred to those after it."""

    runner: Runner
    reason: str


def choices(plan: Plan) -> tuple[RunnerChoice, ...]:
    """What may carry the planned trials, best first; only the runner that the spec names, if it names one.

    Raises:
        AxisError: when a value of the matrix does not fit its field.
    """
    spec = plan.spec
    if spec.runner is not None:
        return (RunnerChoice(spec.runner, "set in spec.runner"),)
    if spec.training_runtime is not None:
        return (RunnerChoice(Runner.train_job, "spec.trainingRuntime needs it"),)
    workloads, pods = plan.workloads, spec.placement.pods_per_node
    one_pod = all(point.nodes * min(point.workers_per_node, pods) == 1 for point in plan.points)
    fitting: list[RunnerChoice] = []
    for runner, reason in _preferences(spec, workloads, one_pod):
        if not any(problem for workload in workloads for problem in misfits(workload, runner.job_kind)):
            fitting.append(RunnerChoice(runner, reason))
            if not runner.job_kind.installed_by:
                break  # every cluster has it
    return tuple(fitting)


def choose(options: Sequence[RunnerChoice], installed: Collection[Runner]) -> RunnerChoice | None:
    """The first that is installed; its reason names those that are not."""
    missing: list[str] = []
    for option in options:
        if option.runner in installed:
            absent = f"; not installed: {', '.join(missing)}" if missing else ""
            return RunnerChoice(option.runner, f"{option.reason}{absent}")
        missing.append(option.runner.value)
    return None


def misfits(workload: Workload, job: JobKind) -> Iterator[Violation]:
    """Report why a kind of job cannot carry the workload, and which can."""
    if workload.roles and not job.has_parameter_servers:
        yield unsupported("with parameter servers", _runners(has_parameter_servers=True))
    if workload.needs_mpirun and not job.uses_mpirun:
        yield unsupported("with ranks that mpirun starts", _runners(uses_mpirun=True))
    if workload.needs_mpirun is False and job.only_mpirun:
        where = (
            f"with program {workload.program} and strategy {workload.resolved_strategy}, which mpirun does not start"
        )
        yield unsupported(where, _runners(only_mpirun=False))


def _preferences(spec: ExperimentSpec, workloads: Sequence[Workload], one_pod: bool) -> Iterator[tuple[Runner, str]]:
    if one_pod:
        yield DEFAULT_RUNNER, "every point is one pod"
    kinds = ((runner, runner.job_kind.preference) for runner in Runner)
    fitting = [(runner, why) for runner, why in kinds if why is not None and why.fits(workloads)]
    fitting.sort(key=lambda kind: kind[1].order)
    queued = spec.queue is not None
    yield from ((runner, why.reason) for runner, why in fitting if not queued or why.in_a_queue)
    if not one_pod:
        yield DEFAULT_RUNNER, "every cluster has it"
    # A job that Kueue does not know waits for ever; it has left the two of training-operator out of its defaults.
    yield from ((runner, why.reason) for runner, why in fitting if queued and why.in_a_queue is False)


def _runners(**facts: bool) -> str:
    """The kinds of job with these facts."""
    named = (
        kind.value for kind in Runner if all(getattr(kind.job_kind, fact) is value for fact, value in facts.items())
    )
    return " or ".join(named)
