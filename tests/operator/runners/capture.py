"""Write ``seen/*.json`` anew: jobs, pods and events as real controllers leave them.

    python -m tests.operator.runners.capture [mpijob pytorchjob tfjob job jobset trainjob rejected chief]

All of it takes about two minutes, and needs the builds of `make cluster-tools`.

kwok runs the pods; their ends are written here, as a kubelet would write them.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_kube.resources import resource_of
from scalecurve_operator.runners import RUNNERS, JobRequest
from scalecurve_operator.runners import job_request as asking
from tests.operator.runners.runner_cases import request
from tools.devcluster.operators import JOBSET, OPERATORS, TRAINER
from tools.devcluster.tier import Tier

SEEN = Path(__file__).parent / "seen"
Tree = dict[str, Any]
SMALL: Tree = {
    "workers": 2,
    "placement": {"workersPerNode": 1},
    "resources": {"limits": {"nvidia.com/gpu": 1}},
    "workload": {"env": {"PLAY": "hang"}},  # to the player of tools/devcluster: leave these pods alone
}


ONE_START: Tree = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "one-start", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {
                                "backoffLimit": 0,
                                "template": {
                                    "spec": {
                                        "restartPolicy": "Never",
                                        "containers": [{"name": "node", "image": "the-platforms"}],
                                    }
                                },
                            },
                        },
                    }
                ]
            }
        },
    },
}
"""A platform's runtime that starts nothing twice; stock ones do."""


class Play:
    """One job in a namespace of its own."""

    def __init__(self, tier: Tier, runner: Runner, scenario: str, **options: Any) -> None:
        self.rest, self.kind, self.name = tier.rest, RUNNERS[runner], f"{runner.value.lower()}-{scenario}"
        self.namespace = tier.namespace(self.name)
        once = {"trainingRuntime": {"name": ONE_START["metadata"]["name"]}} if runner is Runner.train_job else {}
        self.request: JobRequest = request(runner=runner, **{**SMALL, **once, **options})

    def path(self, group: str, version: str, plural: str) -> str:
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{root}/namespaces/{self.namespace}/{plural}"

    def create(self) -> Play:
        tree = self.kind.render(self.request)
        tree["metadata"]["namespace"] = self.namespace
        self.rest.call("POST", resource_of(self.kind.runner).path(self.namespace), tree)
        return self

    def job(self) -> Tree:
        where = resource_of(self.kind.runner).path(self.namespace)
        return dict(self.rest.call("GET", f"{where}/{self.request.job}"))

    def pods(self) -> list[Tree]:
        return sorted(
            self.rest.call("GET", self.path("", "v1", "pods"))["items"], key=lambda pod: pod["metadata"]["name"]
        )

    def events(self) -> list[Tree]:
        return list(self.rest.call("GET", self.path("", "v1", "events"))["items"])

    def until(self, met: Callable[[], Any], seconds: float = 20.0) -> Play:
        end = time.monotonic() + seconds
        while not met():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name}: {json.dumps(self.job().get('status'))}")
            time.sleep(0.1)
        return self

    def until_state(self, state: Job) -> Play:
        return self.until(lambda: self.kind.read(self.job()).state is state)

    def end(self, which: Callable[[Tree], bool], code: int, **terminated: Any) -> Play:
        """Let pods end as a kubelet would report it."""
        for pod in filter(which, self.pods()):
            status = copy.deepcopy(pod["status"])
            for each in status["containerStatuses"]:
                began = each["state"]["running"]["startedAt"]
                reason = "Completed" if code == 0 else "Error"
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now, **terminated}
                each |= {"ready": False, "started": False, "state": {"terminated": ended}}
            status["phase"] = "Failed" if code else "Succeeded"
            for condition in status["conditions"]:
                if condition["type"] in ("Ready", "ContainersReady"):
                    condition |= {"status": "False", "reason": "PodFailed" if code else "PodCompleted"}
            self.write(pod, status)
        return self

    def write(self, pod: Tree, status: Tree) -> None:
        where = f"{self.path('', 'v1', 'pods')}/{pod['metadata']['name']}/status"
        self.rest.call("PATCH", where, {"status": status}, "application/merge-patch+json")

    def keep(self) -> None:
        """Write what is there now."""
        job = self.job()
        for field in job["spec"]:
            if field.endswith("ReplicaSpecs"):
                job["spec"][field] = {role: {"replicas": each["replicas"]} for role, each in job["spec"][field].items()}
        for each in job["spec"].get("replicatedJobs", ()):
            each.pop("template")
        job["spec"].pop("template", None)
        found = {
            "job": plain(job),
            "pods": [plain({**pod, "spec": short(pod["spec"])}) for pod in self.pods()],
            "events": [plain(event) for event in self.events()],
        }
        (SEEN / f"{self.name}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        reading = self.kind.read(job)
        print(f"{self.name}: {reading} pods={[pod['status']['phase'] for pod in self.pods()]}", flush=True)


def plain(tree: Tree) -> Tree:
    tree["metadata"].pop("managedFields", None)
    return tree


def short(spec: Tree) -> Tree:
    containers = [{"name": each["name"], "image": each["image"]} for each in spec["containers"]]
    return {"nodeName": spec.get("nodeName"), "containers": containers}


def last(pod: Tree) -> bool:
    """The worker with the highest number."""
    labels = pod["metadata"]["labels"]
    index = labels.get("batch.kubernetes.io/job-completion-index")
    if index is not None:
        return bool(index == "1")
    return pod["metadata"]["name"].endswith("-worker-0" if "pytorch" in pod["metadata"]["namespace"] else "-worker-1")


def launcher(pod: Tree) -> bool:
    return bool(pod["metadata"]["labels"]["scalecurve.dev/role"] == "launcher")


def capture(tier: Tier, runner: Runner) -> None:
    mpi = runner is Runner.mpi_job
    if runner is Runner.train_job:
        tier.rest.create("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes", ONE_START)
    Play(tier, runner, "queued", queue="team-a").create().until(lambda: True).until_state(Job.queued).keep()

    play = Play(tier, runner, "unschedulable", resources={"limits": {"nvidia.com/gpu": 201}}).create()
    play.until(lambda: sum(event["reason"] == "FailedScheduling" for event in play.events()) > 1).keep()

    play = Play(tier, runner, "running").create().until_state(Job.running)
    play.keep()
    if not mpi:
        play.end(last, 0).until(lambda: play.kind.read(play.job()).state is Job.running)
    play.end(launcher if mpi else lambda pod: not last(pod), 0, message="{}").until_state(Job.ended)
    play.name = play.name.replace("running", "succeeded")
    play.keep()

    play = Play(tier, runner, "oom").create().until_state(Job.running)
    play.end(launcher if mpi else last, 137, reason="OOMKilled").until_state(Job.ended).keep()

    play = Play(tier, runner, "exit").create().until_state(Job.running)
    play.end(launcher if mpi else last, 3, message="boom").until_state(Job.ended).keep()

    asking.BACKSTOP_S = 0
    play = Play(tier, runner, "deadline", deadlineSeconds=3).create().until_state(Job.running)
    try:
        play.until(lambda: play.kind.read(play.job()).state is Job.ended, 12)
    except TimeoutError as error:
        print(f"no deadline: {error}", flush=True)
    time.sleep(3)  # until the pods that the Job deletes are gone
    play.keep()

    play = Play(tier, runner, "quota")
    hard = {"hard": {"requests.nvidia.com/gpu": "1"}}
    play.rest.call("POST", play.path("", "v1", "resourcequotas"), {"metadata": {"name": "small"}, "spec": hard})
    time.sleep(1)
    play.create().until(lambda: any("exceeded quota" in event["message"] for event in play.events())).keep()

    play = Play(tier, runner, "evicted").create().until_state(Job.running)
    pod = next(filter(last, play.pods()))
    reason = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    play.write(pod, {**pod["status"], **reason, "containerStatuses": None})
    play.until_state(Job.ended).keep()

    play = Play(tier, runner, "deleted").create().until_state(Job.running)
    pod = next(filter(last, play.pods()))
    play.rest.raw("DELETE", f"{play.path('', 'v1', 'pods')}/{pod['metadata']['name']}")
    time.sleep(4)
    play.keep()


def capture_rejected(tier: Tier) -> None:
    play = Play(tier, Runner.mpi_job, "rejected")
    object.__setattr__(play.request, "trial_object", "resnet-" + "x" * 50)
    play.create().until(lambda: any(event["reason"] == "ValidationError" for event in play.events())).keep()


def capture_chief(tier: Tier) -> None:
    served = {"program": "tensorflow", "strategy": "parameter-server", **SMALL["workload"]}
    play = Play(tier, Runner.tf_job, "chief", workload=served).create().until_state(Job.running)
    play.end(lambda pod: "-chief-" in pod["metadata"]["name"], 0, message="{}").until_state(Job.ended).keep()


def main(wanted: list[str]) -> None:
    SEEN.mkdir(exist_ok=True)
    with Tier(operators=(*OPERATORS, JOBSET, TRAINER)) as tier:
        tier.add_nodes(3, gpus=200)
        for runner in Runner:
            if not wanted or runner.value.lower() in wanted:
                capture(tier, runner)
        for name, more in (("rejected", capture_rejected), ("chief", capture_chief)):
            if not wanted or name in wanted:
                more(tier)


if __name__ == "__main__":
    main(sys.argv[1:])
