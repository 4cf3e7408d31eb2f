"""A ScalingExperiment object -> the typed experiment, with every rule checked, or why it cannot run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scalecurve_api.planning.plan import Plan, make_plan
from scalecurve_api.planning.runner_choice import RunnerChoice, choices
from scalecurve_api.problem import spell
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation import rules
from scalecurve_operator.cache.cached_objects import MOST_SPEC_BYTES, TOO_LARGE

_MAX_PROBLEMS = 3


@dataclass(frozen=True)
class RunnableExperiment:
    """The plan of an experiment that can run, and the kinds of job that can carry its trials, best first."""

    plan: Plan
    options: tuple[RunnerChoice, ...]


class NotRunnableError(ValueError):
    """An experiment that can never run; the message names the fields, their values and what is allowed."""


def read_runnable(body: Mapping[str, Any]) -> RunnableExperiment:
    """Return the plan of an object's experiment; raise NotRunnableError as ``read_experiment`` does."""
    experiment = read_experiment(body)
    plan = make_plan(experiment, experiment.spec.measure.sessions.count)
    return RunnableExperiment(plan, choices(plan))


def read_experiment(body: Mapping[str, Any]) -> ScalingExperiment:
    """The experiment of an object as the API server stores it, or NotRunnableError with up to three of its problems."""
    if (size := (body.get("spec") or {}).get(TOO_LARGE)) is not None:
        allowed = f"at most {MOST_SPEC_BYTES:,}: keep long commands and variables in files of the image"
        raise NotRunnableError(f"spec: {size:,} bytes; {allowed}")
    wire = {name: body[name] for name in ("apiVersion", "kind", "metadata", "spec") if name in body}
    try:
        experiment = ScalingExperiment.model_validate(wire)
    except ValidationError as error:
        problems = [f"{spell(entry['loc'])}: {entry['msg']}" for entry in error.errors(include_url=False)]
        raise NotRunnableError(summary(problems)) from error
    if broken := rules.check(experiment):
        raise NotRunnableError(summary([str(problem) for problem in broken]))
    return experiment


def summary(problems: list[str]) -> str:
    """The first few problems, and how many more there are."""
    more = f"; and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
    return "; ".join(problems[:_MAX_PROBLEMS]) + more
