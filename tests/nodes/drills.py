"""A drill: an experiment of two trials in a namespace of its own, of which the first comes to harm.

The program is a few lines of Python with the SDK. Its misbehaviour is in it, for one worker count only, or is done to
its pods from outside once it runs.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from tests.cluster.applied import Applied
from tests.nodes.pod_experiments import YIELDING, manifest
from tools.devcluster.nodes.cluster import RealCluster
from tools.devcluster.nodes.installed import restricted_namespace
from tools.devcluster.waiting import wait_until
from tools.images import archives as images

Object = dict[str, Any]

STEPS = {"warmupSteps": 2, "maxWarmupSteps": 4, "windows": 2, "stepsPerWindow": 20, "repetitions": 1}
TWO_NODES, ONE_POD = 2, 1
"""Worker counts of the trial that comes to harm, which are its names too: two ranks on a node each, or one alone."""
_PROGRAM = """
import json, os, sys, time
from pathlib import Path
import scalecurve_worker as scalecurve

given = os.environ["SCALECURVE_TRIAL"]
trial = json.loads(given if given.startswith("{{") else Path(given).read_text())
bench = scalecurve.attach()
rank = bench.session.topology.rank
harm = trial["point"]["workers"] == {harmed}
done = 0
while bench.step(8):
    time.sleep({pace} if harm else 0.1)
    done += 1
    if harm and done == 5:
        {harm}
bench.finish(checksum="0")
"""
SLOW = 1.0
"""Pace of a trial that is harmed from outside: it runs for most of a minute, which is time enough on a busy machine."""
_WAIT_S = 1200.0  # a machine may have much else to do


def of_mpi(namespace: str, harm: str = "pass", pace: float = 0.1, **spec: Any) -> Object:
    """Two ranks under mpirun, one on a node, then one alone; `harm` is one line, done at the fifth step of the two."""
    return _experiment(namespace, harm, pace, TWO_NODES, runner="MPIJob", launcher="mpirun", per_node=1, **spec)


def of_one(namespace: str, harm: str = "pass", pace: float = 0.1, **spec: Any) -> Object:
    """One rank in the one pod of a Job, then two there; `harm` is one line, done at the fifth step of the one."""
    return _experiment(namespace, harm, pace, ONE_POD, runner="Job", launcher="processes", per_node=2, **spec)


def _experiment(
    namespace: str, harm: str, pace: float, harmed: int, *, runner: str, launcher: str, per_node: int, **spec: Any
) -> Object:
    workload = {
        "program": "custom",
        "launcher": launcher,
        "command": ["python", "-c", _PROGRAM.format(harm=harm, pace=pace, harmed=harmed)],
        "image": images.reference("worker-mpi"),
        "device": "cpu",
        "env": YIELDING,
        **spec.pop("workload", {}),
    }
    whole = {
        "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 8}},
        "placement": {"workersPerNode": per_node},
        "pool": "drills",
        "runner": runner,
        "workload": workload,
        "measure": {**STEPS, "maxForeignLoad": 1},
        "deadlineSeconds": 600,
        **spec,
    }
    tree = manifest("drill", namespace, whole)
    # Points are shuffled by the seed: the trial that comes to harm is to be the first.
    for seed in range(64):
        whole["measure"]["seed"] = seed
        if make_plan(ScalingExperiment.model_validate(tree)).trials[0].point.workers == harmed:
            return tree
    raise AssertionError("no seed puts it first")


@dataclass
class Drill:
    """One experiment that runs, and what may be done to it."""

    cluster: RealCluster
    applied: Applied

    @classmethod
    def begin(cls, cluster: RealCluster, name: str, make: Callable[[str], Object]) -> Drill:
        """Apply what `make` gives for a namespace of that name at Pod Security's `restricted` level."""
        namespace = restricted_namespace(cluster, name)
        return cls(cluster, Applied.apply(cluster, make(namespace)))  # type: ignore[arg-type]

    # -- what can be seen

    @property
    def namespace(self) -> str:
        return self.applied.namespace

    def trials(self) -> list[Object]:
        """Statuses of both trials in their order, as far as they were begun."""
        return sorted(filter(None, self.applied.trials().values()), key=lambda status: status["startedAt"])

    @property
    def harmed(self) -> Object:
        """The status of the first trial; empty before there is one."""
        return next(iter(self.trials()), {})

    def pods(self, role: str = "worker") -> list[Object]:
        """Pods that there are now, by name."""
        query = f"labelSelector=scalecurve.dev/role={role}"
        found = self.cluster.rest.call("GET", f"/api/v1/namespaces/{self.namespace}/pods?{query}")["items"]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def log(self, pod: Object) -> str:
        """The log of a pod so far; empty before its container runs."""
        try:
            return self.cluster.kubectl("-n", self.namespace, "logs", pod["metadata"]["name"])
        except subprocess.CalledProcessError:
            return ""

    def until(self, met: Callable[[], Any], what: str, timeout_s: float = _WAIT_S) -> None:
        """Wait; the error tells everything that is known."""
        try:
            wait_until(met, f"{self.namespace}: {what}", timeout_s)
        except TimeoutError as error:
            error.add_note(json.dumps(self.applied.trials(), indent=1))
            error.add_note(self.cluster.kubectl("-n", self.namespace, "describe", "pods")[-6000:])
            raise

    def until_stepping(self) -> None:
        """Wait until the first trial's ranks have begun to step."""
        self.until(lambda: self.harmed.get("phase") == "Running", "Running of the first trial")
        self.until(lambda: any(map(steps_in, self.pids())), "the first steps")

    def pids(self) -> list[int]:
        """Processes of this namespace's ranks, as this machine numbers them."""
        pods = {pod["metadata"]["name"] for pod in self.pods()}
        return [pid for pid, name in processes() if name in pods]

    def first(self) -> Object:
        """How the first trial ended, once both have, and that the second succeeded and nothing is left."""
        status = self.applied.final(_WAIT_S)
        first, second = self.trials()
        assert second["phase"] == "Succeeded", second
        assert status["done"] == 2
        self.until(lambda: not self.applied.left(), "nothing to be left")
        return first

    def said(self) -> tuple[str, str | None, str]:
        """Phase, reason and message of the first trial; as `first`."""
        found = self.first()
        return found["phase"], found.get("reason"), found.get("message", "")


def claim(cluster: RealCluster, namespace: str, name: str, text: str) -> str:
    """A claim to a volume that is one executable file with this text; returns the claim's name, which is `given`."""
    file = cluster.folder / "given" / namespace / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o755)
    size = {"storage": "1Mi"}
    volume = {
        "metadata": {"name": namespace},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadOnlyMany"],
            "hostPath": {"path": str(file), "type": "File"},
            "claimRef": {"namespace": namespace, "name": "given"},
        },
    }
    cluster.rest.call("POST", "/api/v1/persistentvolumes", volume)
    wants = {
        "accessModes": ["ReadOnlyMany"],
        "storageClassName": "",
        "volumeName": namespace,
        "resources": {"requests": size},
    }
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    cluster.rest.call("POST", claims, {"metadata": {"name": "given"}, "spec": wants})
    return "given"


def processes() -> Iterator[tuple[int, str]]:
    """Processes in pods, and the names of their pods: nodes are namespaces of this machine."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = dict(
                each.split("=", 1)
                for each in (folder / "environ").read_text(errors="replace").split("\0")
                if "=" in each
            )
        except OSError:
            continue
        if name := environment.get("POD_NAME"):
            yield int(folder.name), name


def is_first_of_pod(pid: int) -> bool:
    """Whether it is process 1 of its container."""
    found = re.search(r"^NSpid:.*\b(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(found) and found[1] == "1"


def steps_in(pid: int) -> bool:
    """Whether this process is a rank whose journal has steps."""
    root = Path(f"/proc/{pid}/root")
    return any(file.stat().st_size > 200 for file in root.glob("scalecurve/out/rank-*.steps"))
