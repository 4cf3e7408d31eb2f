"""Programs and their optional parts, each loaded when a trial uses it."""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from scalecurve_api.programs.measurement import FurtherMeasurement
from scalecurve_api.programs.workload import Workload
from scalecurve_api.registry import Registry, load
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError


def program(workload: Workload) -> Callable[[TrialSpec], None]:
    """Return the function that runs a trial of the workload's program on this rank.

    Raises:
        WorkloadError: the program is a command, or its framework is not installed.
    """
    target, framework = workload.entry
    if not target:
        raise WorkloadError(f"workload.program: {workload.program} runs a command, not a function")
    if framework and importlib.util.find_spec(framework) is None:
        raise WorkloadError(f"workload.program: {workload.program} needs {framework}, which is not installed here")
    run: Callable[[TrialSpec], None] = load(target)
    return run


EXTRAS: Registry[Callable[..., Any]] = Registry("scalecurve_worker.extras", "part of a program", FunctionType, {})


def extra(name: str) -> Any:
    """Return the function that does this part."""
    return EXTRAS.get(name)


def _skip_check(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Measuring:
    """How a framework does a measurement after the timed windows.

    ``check`` gets the job, its model before training and the request, and raises WorkloadError for a model or data that
    cannot be measured so. ``run`` gets the job, its bench, its data and the request; collective.
    """

    run: Callable[[Any, Any, Any, Any], None]
    check: Callable[[Any, Any, Any], None] = _skip_check


def measurements(trial: TrialSpec, framework: str) -> Iterator[tuple[FurtherMeasurement, Measuring]]:
    """Yield what is measured after the timed windows, and how this framework does it.

    Raises:
        WorkloadError: the framework does not measure it.
    """
    for request in trial.measure.further:
        if framework not in request.runs:
            raise WorkloadError(f"measure: {request.called} is not done by {framework}")
        yield request, load(request.runs[framework])
