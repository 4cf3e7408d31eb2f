"""Jobs of Kubernetes as people have them: how many nodes, how many ranks on each, the pod, and what starts in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scalecurve_api.problem import Path, spell
from scalecurve_api.spec.job_kinds import Runner

MOST = 65_536
_READ: set[Path] = {
    ("apiVersion",),
    ("kind",),
    ("status",),
    *(("metadata", name) for name in ("name", "generateName", "namespace", "labels", "annotations")),
}


class ManifestError(ValueError):
    """A manifest that no experiment can be made of; the message says why."""


@dataclass(frozen=True)
class JobManifest:
    """What an experiment is made of."""

    kind: str
    metadata: dict[str, Any]
    nodes: int
    slots: int | None
    """Ranks on a node, where the job itself states them."""
    template: dict[str, Any]
    container: dict[str, Any]
    """Of the template: the one that runs the program."""
    starter: dict[str, Any]
    """The container whose command starts the program: the launcher's of an MPIJob, the same one elsewhere."""
    unread: tuple[str, ...] = ()
    """Fields of the manifest that nothing here has read."""
    runtime: dict[str, Any] = field(default_factory=dict)


def read_job(document: dict[str, Any]) -> JobManifest:
    """The job of a document whose kind is one of ``CONVERTED``.

    Raises:
        ManifestError: a count is none, or there are no pods.
    """
    return _KINDS[document["kind"]](document)


def mapping(value: Any, *names: str) -> dict[str, Any]:
    """The mapping at a path of names; an empty one where there is something else or nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def whole(value: Any, path: Path, default: int = 1) -> int:
    """A count of a manifest."""
    if value is None:
        return default
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9 else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST:
        raise ManifestError(f"{spell(path)}: expected a whole number from 1 to {MOST}")
    return number


def _mpi(document: dict[str, Any]) -> JobManifest:
    roles = ("spec", "mpiReplicaSpecs")
    worker, launcher = (mapping(document, *roles, role) for role in ("Worker", "Launcher"))
    template, starting = mapping(worker, "template"), mapping(launcher, "template")
    container, starter = _main(template, "Worker", Runner.mpi_job), _main(starting, "Launcher", Runner.mpi_job)
    at: Path = (*roles, "Launcher", "template", "spec", "containers", 0)
    read: set[Path] = {("spec", "slotsPerWorker"), (*roles, "Worker", "replicas"), (*roles, "Worker", "template")}
    read |= {(*roles, "Launcher", "replicas"), *((*at, name) for name in ("name", "command", "args", "env"))}
    read |= {(*at, name) for name in ("image", "imagePullPolicy") if starter.get(name) == container.get(name)}
    slots = mapping(document, "spec").get("slotsPerWorker")
    stated = None if slots is None else whole(slots, ("spec", "slotsPerWorker"))
    nodes = whole(worker.get("replicas"), (*roles, "Worker", "replicas"))
    return _job(document, nodes, stated, template, container, starter, read)


def _pytorch(document: dict[str, Any]) -> JobManifest:
    roles = ("spec", "pytorchReplicaSpecs")
    present = [role for role in ("Worker", "Master") if mapping(document, *roles, role)]
    if not present:
        raise ManifestError(f"{spell(roles)}: expected Master or Worker")
    template = mapping(document, *roles, present[0], "template")
    container = _main(template, present[0], Runner.pytorch_job)
    counted = [(*roles, role, "replicas") for role in present]
    nodes = sum(whole(mapping(document, *path[:-1]).get("replicas"), path) for path in counted)
    read: set[Path] = {*counted, ("spec", "nprocPerNode"), (*roles, present[0], "template")}
    read |= {(*roles, role, "template") for role in present if mapping(document, *roles, role, "template") == template}
    return _job(document, nodes, _ranks(document["spec"].get("nprocPerNode")), template, container, container, read)


def _job_set(document: dict[str, Any]) -> JobManifest:
    parts = mapping(document, "spec").get("replicatedJobs")
    sized = []
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        path: Path = ("spec", "replicatedJobs", index)
        job = mapping(part, "template", "spec")
        pods = whole(mapping(part).get("replicas"), (*path, "replicas")) * _pods(job, (*path, "template", "spec"))
        sized.append((pods, path, job))
    if not sized:
        raise ManifestError("spec.replicatedJobs: expected at least one job")
    nodes, path, job = max(sized, key=lambda each: each[0])
    inner: Path = (*path, "template", "spec")
    read: set[Path] = {(*path, "name"), (*path, "replicas"), (*inner, "template")}
    read |= {(*inner, name) for name in ("parallelism", "completions", "completionMode")}
    template = mapping(job, "template")
    container = _main(template, spell(path), Runner.job_set)
    return _job(document, whole(nodes, path), None, template, container, container, read)


def _plain_job(document: dict[str, Any]) -> JobManifest:
    spec = mapping(document, "spec")
    template = mapping(spec, "template")
    container = _main(template, "spec.template", Runner.job)
    read: set[Path] = {("spec", name) for name in ("parallelism", "completions", "completionMode", "template")}
    return _job(document, _pods(spec, ("spec",)), None, template, container, container, read)


def _train(document: dict[str, Any]) -> JobManifest:
    spec = mapping(document, "spec")
    trainer = mapping(spec, "trainer")
    container = {"name": "node", **{name: trainer[name] for name in _TRAINER if name in trainer}}
    if "resourcesPerNode" in trainer:
        container["resources"] = trainer["resourcesPerNode"]
    read: set[Path] = {("spec", "trainer", name) for name in (*_TRAINER, "resourcesPerNode", "numNodes")}
    read |= {("spec", "trainer", "numProcPerNode"), ("spec", "runtimeRef"), ("spec", "labels"), ("spec", "annotations")}
    metadata = {**mapping(document, "metadata")}
    for name in ("labels", "annotations"):
        metadata[name] = {**mapping(metadata, name), **mapping(spec, name)}
    nodes = whole(trainer.get("numNodes"), ("spec", "trainer", "numNodes"))
    template = {"spec": {"containers": [container]}}
    made = {**document, "metadata": metadata}
    slots = _ranks(trainer.get("numProcPerNode"))
    return _job(made, nodes, slots, template, container, container, read, mapping(spec, "runtimeRef"))


_TRAINER = ("image", "command", "args", "env")
_KINDS: dict[str, Callable[[dict[str, Any]], JobManifest]] = {
    "MPIJob": _mpi,
    "PyTorchJob": _pytorch,
    "JobSet": _job_set,
    "TrainJob": _train,
    "Job": _plain_job,
}


def _job(
    document: dict[str, Any],
    nodes: int,
    slots: int | None,
    template: dict[str, Any],
    container: dict[str, Any],
    starter: dict[str, Any],
    read: set[Path],
    runtime: dict[str, Any] | None = None,
) -> JobManifest:
    unread = tuple(spell(path) for path in _rest(document, _READ | read))
    metadata = mapping(document, "metadata")
    return JobManifest(document["kind"], metadata, nodes, slots, template, container, starter, unread, runtime or {})


def _rest(value: Any, read: set[Path], path: Path = ()) -> Iterator[Path]:
    """The outermost fields that nothing has read."""
    if path in read:
        return
    within = any(known[: len(path)] == path for known in read)
    if within and isinstance(value, dict):
        for name, child in value.items():
            yield from _rest(child, read, (*path, name))
    elif within and isinstance(value, list):
        for index, child in enumerate(value):
            yield from _rest(child, read, (*path, index))
    else:
        yield path


def _main(template: dict[str, Any], where: str, runner: Runner) -> dict[str, Any]:
    """The container that the job's operator takes for the one that runs the program, or the first."""
    containers = objects(mapping(template, "spec").get("containers"))
    if not containers:
        raise ManifestError(f"{where}: expected a pod template with a container")
    known = [each for each in containers if each.get("name") in runner.job_kind.containers]
    return (known or containers)[0]


def _pods(job: dict[str, Any], path: Path) -> int:
    return whole(job.get("parallelism", job.get("completions")), (*path, "parallelism"))


def _ranks(value: Any) -> int | None:
    """Ranks on a node, if it is a number: auto, gpu and cpu are what the node has."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and 0 < len(value) < 6 and int(value) else None
