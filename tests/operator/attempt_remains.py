"""What an attempt leaves for the operator to collect: pods, a log with a record in it, a termination message."""

from __future__ import annotations

from typing import Any

from scalecurve_api.record.assemble import combine_windows, summarize
from scalecurve_api.record.envelope import digest, seal, unseal
from scalecurve_api.record.log_lines import frame
from scalecurve_api.record.rank import RankRecord, RankTopology, Window, WindowKind
from scalecurve_api.record.termination import Termination, spell
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialSpec

Tree = dict[str, Any]
BEGIN_NS = 1_790_000_000_000_000_000


def experiment_tree(name: str = "exp", **spec: Any) -> Tree:
    """An experiment of two points, on nodes of one worker each."""
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 8}},
            "placement": {"workersPerNode": 1},
            "measure": {"windows": 2, "stepsPerWindow": 3, "repetitions": 1},
            **spec,
        },
    }


def experiment(name: str = "exp", **spec: Any) -> ScalingExperiment:
    """The same, typed."""
    return ScalingExperiment.model_validate(experiment_tree(name, **spec))


def stored_experiment(**spec: Any) -> dict[str, Any]:
    """An experiment as the API server stores it."""
    tree = experiment_tree(**spec)
    tree["metadata"] |= {"namespace": "ns", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}
    tree["metadata"] |= {"annotations": {"c": "d"}, "creationTimestamp": "2026-11-21T10:00:00Z", "generation": 3}
    return tree | {"status": {"phase": "Running"}}


def pod_name(job: str, index: int) -> str:
    """As the job's controller names it, without the random end."""
    return f"{job}-{index}"


def ranks_of(trial: TrialSpec, job: str) -> dict[int, RankRecord]:
    """Every rank's record of a good run, a pod and a node each."""
    return {rank: _rank(trial, job, rank) for rank in range(trial.point.workers)}


def payload_of(trial: TrialSpec, job: str, attempt: int = 1, journals: dict[int, bytes] | None = None) -> bytes:
    """The record's payload."""
    return seal(trial.name, attempt, ranks_of(trial, job), journals or {}, 1 << 30)


def log_of(payload: bytes) -> str:
    """What the recording pod printed, its record between other lines."""
    return "\n".join(["step 1", *frame(payload), "bye", ""])


def announced(trial: TrialSpec, payload: bytes | None, attempt: int = 1) -> str:
    """The recording pod's termination message."""
    summary = sha256 = None
    if payload is not None:
        envelope, sha256 = unseal(payload), digest(payload)
        ranks = [envelope.ranks[rank] for rank in sorted(envelope.ranks)]
        summary = summarize(trial, ranks, combine_windows(ranks), {})
    return spell(Termination(trial=trial.name, attempt=attempt, sha256=sha256, summary=summary))


def pod(namespace: str, job: str, index: int, labels: dict[str, str], code: int | None, said: str = "") -> Tree:
    """A pod of an indexed Job; ``code`` None while it runs."""
    ended = {"terminated": {"exitCode": code, "message": said, "finishedAt": "2026-11-21T23:00:00Z"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(job, index),
            "namespace": namespace,
            "labels": {
                **labels,
                "scalecurve.dev/role": "worker",
                "batch.kubernetes.io/job-completion-index": str(index),
            },
        },
        "spec": {"nodeName": f"node-{index}", "containers": [{"name": "worker"}]},
        "status": {
            "phase": "Running" if code is None else "Failed" if code else "Succeeded",
            "containerStatuses": [{"name": "worker", "state": {"running": {}} if code is None else ended}],
        },
    }


def _rank(trial: TrialSpec, job: str, rank: int) -> RankRecord:
    windows = [
        Window(
            index=index,
            kind=WindowKind.train,
            open_ns=BEGIN_NS + index * 10**9,
            wall_ns=240_000_000,
            first_step=trial.measure.warmup_steps + index * trial.measure.steps_per_window,
            steps=trial.measure.steps_per_window,
            samples=8 * trial.measure.steps_per_window,
        )
        for index in range(trial.measure.windows)
    ]
    topology = RankTopology(
        rank=rank,
        local_rank=0,
        host=pod_name(job, rank),
        pid=1,
        pod=pod_name(job, rank),
        node=f"node-{rank}",
        device="cpu:0",
        device_name="a CPU",
        cores=[0],
    )
    return RankRecord(
        trial=trial.name,
        world=trial.point.workers,
        topology=topology,
        backend="gloo" if trial.point.workers > 1 else None,
        strategy="DistributedDataParallel",
        windows=windows,
        parameter_checksum="abc",
        finite_loss=True,
        started_ns=BEGIN_NS - 10**9,
        ended_ns=BEGIN_NS + 10**10,
    )
