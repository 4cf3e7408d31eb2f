"""What differs between two experiments; one with further worker counts is the same experiment without them."""

from collections.abc import Sequence
from typing import Any

from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.scaling import Layout, Workers

_SWITCHES = ("suspend", "cancel")


def restricted(
    experiment: ScalingExperiment, workers: Sequence[Workers], layouts: Sequence[Layout]
) -> ScalingExperiment:
    """The experiment with these worker counts and layouts alone."""
    spec = experiment.spec
    scaling = spec.scaling.model_copy(update={"workers": list(workers)})
    placement = spec.placement.model_copy(update={"layouts": list(layouts)})
    smaller = spec.model_copy(update={"scaling": scaling, "placement": placement})
    return experiment.model_copy(update={"spec": smaller})


def find_added_workers(before: ScalingExperiment, after: ScalingExperiment) -> list[int]:
    """Worker counts that only the later experiment has, and those of layouts that only it has."""
    counts = [n for n in after.spec.scaling.workers if n not in before.spec.scaling.workers]
    layouts = [each for each in after.spec.placement.layouts if each not in before.spec.placement.layouts]
    sizes = (layout.split("x") for layout in layouts)
    return list(dict.fromkeys([*counts, *(int(nodes) * int(each) for nodes, each in sizes)]))


def find_removed_workers(before: ScalingExperiment, after: ScalingExperiment) -> list[str]:
    """Worker counts and layouts that the later experiment lacks, as they are written."""
    counts = [str(n) for n in before.spec.scaling.workers if n not in after.spec.scaling.workers]
    return counts + [each for each in before.spec.placement.layouts if each not in after.spec.placement.layouts]


def request_of(experiment: ScalingExperiment) -> dict[str, Any]:
    """What may not change after the start: the spec without its switches."""
    spec = experiment.spec.wire()
    kept = {name: value for name, value in spec.items() if name not in _SWITCHES}
    return {"metadata": {"name": experiment.metadata.name}, "spec": kept}


def first_difference(stored: Any, requested: Any, path: str = "") -> str | None:
    """Describe the first field in which two JSON values differ; None if they are equal."""
    if isinstance(stored, dict) and isinstance(requested, dict):
        for name in sorted({*stored, *requested}):
            inner = f"{path}.{name}" if path else name
            if (difference := first_difference(stored.get(name), requested.get(name), inner)) is not None:
                return difference
        return None
    return None if stored == requested else f"{path} is {stored!r} there and {requested!r} here"
