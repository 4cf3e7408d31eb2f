"""An experiment made of a job's manifest: an MPIJob, PyTorchJob, JobSet, TrainJob or Job.

Replicas and slots become worker counts, the pod becomes ``pod.template``, and what starts becomes ``workload``. What is
not carried over is named, as is what was guessed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scalecurve.planning.manifest_command import Started, insert_placeholders, started
from scalecurve.planning.manifest_jobs import JobManifest, ManifestError, mapping, objects, read_job
from scalecurve.planning.script_command import CommandError
from scalecurve_api.contract import places
from scalecurve_api.problem import printable
from scalecurve_api.programs.workload import Launcher
from scalecurve_api.spec.object_names import MANAGED_LABEL
from scalecurve_api.spec.quantity import value as quantity
from scalecurve_api.validation.document import read_documents, write_documents
from scalecurve_api.validation.foreign import CONVERTED
from scalecurve_api.validation.pod_template import MAIN_CONTAINER

_QUEUE = "kueue.x-k8s.io/queue-name"
_OURS = ("restartPolicy", "activeDeadlineSeconds", "hostname", "subdomain")
_ACCELERATOR = re.compile(r"(?:.*/)?(?:gpu|tpu|gaudi|neuron|neuroncore|npu)|nvidia\.com/mig-.*")
_HOST = ("cpu", "memory", "ephemeral-storage")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MIB = 1 << 20
_VOLUMES = ("shm", "out", "tmp", "results")


@dataclass(frozen=True)
class Converted:
    """The YAML of the experiments, which begins with what was dropped and guessed, as comments."""

    text: str
    notes: tuple[str, ...]


def experiment_from(text: str, file: str) -> Converted:
    """Make an experiment of each job in a YAML text.

    Args:
        text: The manifests.
        file: What messages call the text.

    Returns:
        The YAML of the experiments, with what was dropped and guessed.

    Raises:
        ManifestError: the text is no YAML, holds no such job, or one that no experiment can be made of.
    """
    documents, problems = read_documents(text, file)
    if problems:
        raise ManifestError(str(problems[0]))
    values = [document.value for document in documents]
    jobs = [value for value in values if mapping(value).get("kind") in CONVERTED]
    if not jobs:
        kinds = sorted({str(mapping(value).get("kind", "no kind")) for value in values})
        raise ManifestError(f"{file}: expected a job ({', '.join(CONVERTED)}), got {', '.join(kinds) or 'nothing'}")
    made, notes = [], []
    for job in jobs:
        try:
            experiment, said = _experiment(read_job(job))
        except (ManifestError, CommandError) as error:
            raise ManifestError(f"{file}: {job['kind']}: {error}") from None
        made.append(experiment)
        notes += said
    others = [str(mapping(value).get("kind", "no kind")) for value in values if value not in jobs]
    notes += [f"not carried over: {', '.join(others)} of the file; apply what the pods need"] if others else []
    lines = [f"From {file}, by `scalecurve experiment from`.", *notes]
    head = "".join(f"# {printable(line)}\n" for line in lines)
    return Converted(head + write_documents(made), tuple(notes))


def _experiment(job: JobManifest) -> tuple[dict[str, Any], list[str]]:
    launcher = Launcher.mpirun if job.kind == "MPIJob" else Launcher.torchrun
    program = started([*_texts(job.starter.get("command")), *_texts(job.starter.get("args"))], launcher)
    slots = job.slots or _slots(job, program)
    total = job.nodes * slots
    if total > 65_536:
        raise ManifestError(f"{job.nodes} nodes x {slots} ranks are more than 65536 workers")
    numbers = {"nodes": job.nodes, "workersPerNode": slots, "workers": total}
    program = insert_placeholders(program, numbers)
    notes = [*program.notes]
    pod = _Pod(job, slots)
    workload = program.workload
    image = job.container.get("image")
    if program.is_benchmark:
        notes += [f"not carried over: the image {image}; state workload.image to run another"] if image else []
    elif image is not None:
        workload["image"] = image
        notes.append(f"the image {image} needs ScaleCurve's worker installed in it (docs/how-to/building-images.md)")
    if env := {**pod.env, **program.env}:
        workload["env"] = env
    if pod.directory and not program.is_benchmark:
        workload["workingDir"] = pod.directory
    counts = _counts(job.nodes, slots, program)
    batch = {"batch": program.batch} if program.batch else {}
    spec: dict[str, Any] = {
        "scaling": {"modes": ["strong" if "global" in program.batch else "weak"], "workers": counts, **batch},
        "placement": {"workersPerNode": slots},
        "workload": workload,
        **({"resources": {"limits": pod.limits}} if pod.limits else {}),
        **pod.job_fields(),
        "pod": pod.options(),
    }
    if name := mapping(job.runtime).get("name"):
        kind = job.runtime.get("kind")
        spec["trainingRuntime"] = {"name": name, **({"kind": kind} if kind else {})}
    notes += pod.notes
    left = [*job.unread, *pod.left]
    notes += [f"not carried over: {', '.join(left)}"] if left else []
    namespace = job.metadata.get("namespace")
    metadata = {"name": _name(job.metadata), **({"namespace": namespace} if isinstance(namespace, str) else {})}
    head = {"apiVersion": "scalecurve.dev/v1alpha1", "kind": "ScalingExperiment", "metadata": metadata}
    return {**head, "spec": spec}, notes


def _texts(words: Any) -> list[str]:
    return [word if isinstance(word, str) else str(word) for word in words] if isinstance(words, list) else []


def _slots(job: JobManifest, program: Started) -> int:
    """Ranks on a node: what the launcher was told, else its accelerators."""
    if program.ranks and job.kind == "MPIJob":
        return max(1, program.ranks // job.nodes)
    limits = mapping(job.container, "resources", "limits") or mapping(job.container, "resources", "requests")
    numbers = [_number(amount) for name, amount in limits.items() if _ACCELERATOR.fullmatch(name)]
    return program.ranks or next((number for number in numbers if number), 1)


def _number(amount: Any) -> int:
    text = str(amount)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def _counts(nodes: int, slots: int, program: Started) -> list[int]:
    """Worker counts from one up to the job's own: powers of two of a node's workers, then of nodes."""
    doubled = [1 << power for power in range(17)]
    counts = {count for count in doubled if count < slots} | {count * slots for count in doubled if count < nodes}
    counts |= {nodes * slots}
    if program.is_benchmark and len(counts) > 1:
        counts.discard(1)
    total = program.batch.get("global")
    fitting = [count for count in sorted(counts) if total is None or total % count == 0]
    return fitting or [nodes * slots]


def _name(metadata: dict[str, Any]) -> str:
    name = metadata.get("name", metadata.get("generateName"))
    return re.sub(r"[^a-z0-9]+", "-", str(name or "job").lower())[:40].strip("-") or "job"


class _Pod:
    """The pod of a job, in an experiment's words: settings of its own, resources of a worker, and the rest."""

    def __init__(self, job: JobManifest, slots: int) -> None:
        self.job, self.slots = job, slots
        self.left: list[str] = []
        self.notes: list[str] = []
        self.limits: dict[str, Any] = {}
        self.env: dict[str, str] = {}
        self.directory: Any = None
        self._named: dict[str, Any] = {}
        self.labels = {**mapping(job.metadata, "labels")}
        self.queue = self.labels.pop(_QUEUE, None)
        self.template = self._template()

    def job_fields(self) -> dict[str, Any]:
        return {"queue": self.queue} if isinstance(self.queue, str) else {}

    def options(self) -> dict[str, Any]:
        annotations = {**mapping(self.job.metadata, "annotations")}
        annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
        return {
            **self._named,
            # A container may write anywhere in its image's file system; what is measured is so by default, too.
            "writableRoot": True,
            **({"jobLabels": self.labels} if self.labels else {}),
            **({"jobAnnotations": annotations} if annotations else {}),
            **({"template": self.template} if self.template else {}),
        }

    def _template(self) -> dict[str, Any]:
        whole = copy.deepcopy(self.job.template)
        metadata, pod = mapping(whole, "metadata"), mapping(whole, "spec")
        kept: dict[str, Any] = {}
        for name, part in metadata.items():
            if name in ("labels", "annotations"):
                kept[name] = {key: text for key, text in mapping(part).items() if not self._is_ours(key)}
            else:
                self.left.append(f"the pod's metadata.{name}")
        for name in _OURS:
            if name in pod:
                del pod[name]
                self.left.append(f"the pod's {name}")
        if isinstance(self.queue, str) and pod.pop("terminationGracePeriodSeconds", None) is not None:
            self.left.append("the pod's terminationGracePeriodSeconds")
        index = next(at for at, each in enumerate(pod["containers"]) if each == self.job.container)
        main = self._container(pod["containers"][index], pod)
        others = [each for at, each in enumerate(pod["containers"]) if at != index]
        containers = [*([main] if len(main) > 1 else []), *others]
        pod = {**pod, "containers": containers} if containers else {k: v for k, v in pod.items() if k != "containers"}
        return {**({"metadata": kept} if any(kept.values()) else {}), **({"spec": pod} if pod else {})}

    def _is_ours(self, label: str) -> bool:
        return label == MANAGED_LABEL or label.startswith("scalecurve.dev/")

    def _container(self, container: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
        main = {name: part for name, part in container.items() if name not in ("command", "args", "image", "name")}
        if policy := main.pop("imagePullPolicy", None):
            self._named["imagePullPolicy"] = policy
        if directory := main.pop("workingDir", None):
            self.directory = directory
        self._variables(main)
        self._resources(main)
        self._security(main)
        self._take_shared_memory(main, pod)
        _rename_volumes(main, pod)
        return {"name": MAIN_CONTAINER, **main}

    def _variables(self, main: dict[str, Any]) -> None:
        """Plain values are the workload's, for placeholders and records; what the kubelet fills in stays in the pod."""
        entries = [*objects(main.pop("env", None))]
        if self.job.starter is not self.job.container:
            entries += objects(self.job.starter.get("env"))
        kept = []
        for entry in entries:
            name, text = entry.get("name"), entry.get("value")
            if isinstance(name, str) and places(name):
                self.left.append(f"the variable {name} (set for each rank)")
            elif (
                isinstance(name, str)
                and isinstance(text, str)
                and _PLAIN.fullmatch(name)
                and not _has_placeholder(text)
            ):
                self.env[name] = text
            else:
                kept.append(entry)
        if kept:
            main["env"] = kept

    def _resources(self, main: dict[str, Any]) -> None:
        """Limits of accelerators, cores and memory are of a worker; what else a pod needs stays the pod's."""
        resources = main.get("resources")
        limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
        for name in [*limits]:
            if not (_ACCELERATOR.fullmatch(name) or name in _HOST):
                continue
            share = _share(limits[name], self.slots, name in ("memory", "ephemeral-storage"))
            if share is None:
                self.notes.append(f"{name} {limits[name]} is of the pod: it is no multiple of {self.slots}")
                continue
            self.limits[name] = share
            del limits[name]
            requests.pop(name, None)
        kept = {name: part for name, part in mapping(resources).items() if part}
        main.pop("resources", None)
        if kept:
            main["resources"] = kept

    def _security(self, main: dict[str, Any]) -> None:
        security = mapping(main, "securityContext")
        added = mapping(security, "capabilities").get("add")
        if isinstance(added, list) and "IPC_LOCK" in added:
            self._named["lockMemory"] = True
            security["capabilities"]["add"] = [each for each in added if each != "IPC_LOCK"]
            if not security["capabilities"]["add"]:
                del security["capabilities"]["add"]
        if security.get("privileged") is True:
            # The API server refuses one without the other.
            security["allowPrivilegeEscalation"] = True
        for name in [name for name, part in security.items() if part == {}]:
            del security[name]
        if "securityContext" in main and not security:
            del main["securityContext"]

    def _take_shared_memory(self, main: dict[str, Any], pod: dict[str, Any]) -> None:
        """The volume of /dev/shm: every pod of a trial has one."""
        mounts = objects(main.get("volumeMounts"))
        shm = next((mount for mount in mounts if mount.get("mountPath") == "/dev/shm"), None)
        volumes = objects(pod.get("volumes"))
        volume = next((each for each in volumes if shm and each.get("name") == shm.get("name")), None)
        if shm is None or volume is None or "emptyDir" not in volume:
            return
        if size := mapping(volume, "emptyDir").get("sizeLimit"):
            self._named["sharedMemory"] = str(size)
        main["volumeMounts"] = [mount for mount in mounts if mount is not shm]
        if not main["volumeMounts"]:
            del main["volumeMounts"]
        if not any(_mounts(each, volume["name"]) for each in _containers(pod)):
            pod["volumes"] = [each for each in volumes if each is not volume]
            if not pod["volumes"]:
                del pod["volumes"]


def _containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("containers", "initContainers"):
        yield from objects(pod.get(name))


def _mounts(container: dict[str, Any], volume: Any) -> bool:
    mounts: Sequence[dict[str, Any]] = objects(container.get("volumeMounts"))
    return any(mount.get("name") == volume and mount.get("mountPath") != "/dev/shm" for mount in mounts)


def _rename_volumes(main: dict[str, Any], pod: dict[str, Any]) -> None:
    """Give volumes that are named like those of every trial's pods another name: a patch would mix the two."""
    for volume in objects(pod.get("volumes")):
        if (name := volume.get("name")) in _VOLUMES:
            volume["name"] = f"{name}-of-the-job"
            for mount in (m for each in (main, *_containers(pod)) for m in objects(each.get("volumeMounts"))):
                if mount.get("name") == name:
                    mount["name"] = volume["name"]


def _has_placeholder(text: str) -> bool:
    """Whether the kubelet would fill something in, or a placeholder's braces are meant as they are."""
    return "$(" in text or re.search(r"\{[A-Za-z_]", text) is not None


def _share(amount: Any, slots: int, in_bytes: bool) -> int | str | None:
    """One worker's part of a pod's resource, exactly; None where it cannot be divided."""
    try:
        whole = quantity(amount) / slots
    except (ValueError, ArithmeticError):
        return None
    if whole == whole.to_integral_value() and not in_bytes:
        return int(whole)
    if in_bytes and whole % _MIB == 0:
        gib = whole / (_MIB << 10)
        return f"{int(gib)}Gi" if gib == gib.to_integral_value() else f"{int(whole / _MIB)}Mi"
    milli = whole * 1000
    return f"{int(milli)}m" if not in_bytes and milli == milli.to_integral_value() else None
