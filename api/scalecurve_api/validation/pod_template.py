"""What ``spec.pod.template`` may not change: what an attempt needs to be told apart, measured and ended."""

from collections.abc import Iterator
from typing import Any

from scalecurve_api.contract import places
from scalecurve_api.model import canonical_json
from scalecurve_api.problem import NOTHING, Description, Path, Problem, expected, forbidden, required, reserved, unknown
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.object_names import MANAGED_LABEL

MAIN_CONTAINER = "worker"
"""What a template calls the container that runs the program, whatever the job kind calls it."""
_MAX_BYTES = 32 << 10
_PARTS = {"metadata": ("labels", "annotations"), "spec": ()}
_OURS = ("restartPolicy", "activeDeadlineSeconds", "hostname", "subdomain")
_OURS_OF_MAIN = ("command", "args", "$patch")
_CONTAINERS = ("containers", "initContainers")


def template_problems(spec: ExperimentSpec) -> Iterator[Problem]:
    """Check all of the patch that can be checked without an API server."""
    path: Path = ("spec", "pod", "template")
    template = spec.pod.template
    if (size := len(canonical_json(template))) > _MAX_BYTES:
        yield Problem(path, Description(f"{size} bytes"), expected(f"at most {_MAX_BYTES}"))
    for name, part in template.items():
        if name not in _PARTS:
            yield Problem((*path, name), part, unknown("field", name, _PARTS))
        elif not isinstance(part, dict):
            yield Problem((*path, name), part, expected("a mapping, as in a pod"))
    metadata, pod = (part if isinstance(part := template.get(name), dict) else {} for name in _PARTS)
    yield from _metadata_problems(metadata, (*path, "metadata"))
    yield from _spec_problems(pod, (*path, "spec"))


def _metadata_problems(metadata: dict[str, Any], path: Path) -> Iterator[Problem]:
    for name, part in metadata.items():
        if name not in _PARTS["metadata"]:
            yield Problem((*path, name), part, unknown("field", name, _PARTS["metadata"]))
    labels = metadata.get("labels")
    for label, text in labels.items() if isinstance(labels, dict) else ():
        if label.startswith("scalecurve.dev/") or label == MANAGED_LABEL:
            yield Problem((*path, "labels", label), text, reserved("selects the pods of an attempt"))


def _spec_problems(pod: dict[str, Any], path: Path) -> Iterator[Problem]:
    for name in _OURS:
        if name in pod:
            yield Problem((*path, name), pod[name], forbidden("set by the operator for each attempt"))
    for kind in _CONTAINERS:
        containers = pod.get(kind, [])
        if not isinstance(containers, list):
            yield Problem((*path, kind), containers, expected("a list of containers"))
            continue
        for index, container in enumerate(containers):
            yield from _container_problems(container, (*path, kind, index), main=kind == "containers")


def _container_problems(container: Any, path: Path, *, main: bool) -> Iterator[Problem]:
    name = container.get("name") if isinstance(container, dict) else None
    if not isinstance(name, str):
        named = f"a name; {MAIN_CONTAINER} is the container that runs the program"
        violation = required(named) if name is None else expected(named)
        yield Problem((*path, "name"), NOTHING if name is None else name, violation)
        return
    if not main or name != MAIN_CONTAINER:
        return
    for field in _OURS_OF_MAIN:
        if field in container:
            yield Problem((*path, field), container[field], forbidden("the worker image starts the program itself"))
    entries = container.get("env")
    for at, entry in enumerate(entries if isinstance(entries, list) else ()):
        variable = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(variable, str) and places(variable):
            yield Problem((*path, "env", at, "name"), variable, reserved("set for each process, to tell it its rank"))
