"""What ``spec.pod.template`` may not change: what an attempt needs to be told apart, measured and ended."""

from collections.abc import Iterator
from typing import Any

from scalecurve_api.contract import places
from scalecurve_api.model import canonical_json
from scalecurve_api.problem import NOTHING, Path, Problem
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
    """Everything that is wrong with the patch that can be told without an API server."""
    path: Path = ("spec", "pod", "template")
    template = spec.pod.template
    if (size := len(canonical_json(template))) > _MAX_BYTES:
        yield Problem(path, f"{size} bytes", f"at most {_MAX_BYTES}")
    for name, part in template.items():
        if name not in _PARTS:
            yield Problem((*path, name), part, f"one of {' and '.join(_PARTS)}, as in a pod")
        elif not isinstance(part, dict):
            yield Problem((*path, name), part, "a mapping, as in a pod")
    metadata, pod = (part if isinstance(part := template.get(name), dict) else {} for name in _PARTS)
    yield from _metadata_problems(metadata, (*path, "metadata"))
    yield from _spec_problems(pod, (*path, "spec"))


def _metadata_problems(metadata: dict[str, Any], path: Path) -> Iterator[Problem]:
    for name, part in metadata.items():
        if name not in _PARTS["metadata"]:
            yield Problem((*path, name), part, "labels and annotations only")
    labels = metadata.get("labels")
    for label, text in labels.items() if isinstance(labels, dict) else ():
        if label.startswith("scalecurve.dev/") or label == MANAGED_LABEL:
            yield Problem((*path, "labels", label), text, "another label: this one tells an attempt's pods from others")


def _spec_problems(pod: dict[str, Any], path: Path) -> Iterator[Problem]:
    for name in _OURS:
        if name in pod:
            yield Problem((*path, name), pod[name], "left out: an attempt sets it")
    for kind in _CONTAINERS:
        containers = pod.get(kind, [])
        if not isinstance(containers, list):
            yield Problem((*path, kind), containers, "a list of containers")
            continue
        for index, container in enumerate(containers):
            yield from _container_problems(container, (*path, kind, index), main=kind == "containers")


def _container_problems(container: Any, path: Path, *, main: bool) -> Iterator[Problem]:
    name = container.get("name") if isinstance(container, dict) else None
    if not isinstance(name, str):
        allowed = f"a name; {MAIN_CONTAINER} is the container that runs the program"
        yield Problem((*path, "name"), NOTHING if name is None else name, allowed)
        return
    if not main or name != MAIN_CONTAINER:
        return
    for field in _OURS_OF_MAIN:
        if field in container:
            yield Problem((*path, field), container[field], "left out: the worker's own entry starts the program")
    entries = container.get("env")
    for at, entry in enumerate(entries if isinstance(entries, list) else ()):
        variable = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(variable, str) and places(variable):
            yield Problem((*path, "env", at, "name"), variable, "another name: this one tells each process its rank")
