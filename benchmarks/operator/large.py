"""Large points on every runner: 1 to 4,096 workers, 512 pods of 8 on nodes that kwok plays, records played.

    python -m benchmarks.operator.large [--workers 1,8,64,512,4096] [--runners Job,PyTorchJob,MPIJob,TFJob]

The operator's time from apply to job is between the API server's answer to the experiment's creation and the arrival
of the job's creation there, both from its audit log. Then the job's pods are made, scheduled and run by the real
controllers; the record in the cluster is put together again from its ConfigMaps and unsealed.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.operator.rig.audit import LATE_S, Audit, count, unix
from benchmarks.operator.rig.bars import Figure, parser, report, say
from benchmarks.operator.rig.process import USER, OperatorProcess
from benchmarks.operator.rig.watching import Experiments
from scalecurve_api.record import envelope
from scalecurve_api.spec.object_names import RECORD_KEY
from scalecurve_operator.settings import Settings

from tools.devcluster.tier import Tier  # isort: skip

BUDGET = Settings().record_bytes
LIMIT_MIB = 512
"""What the chart lets its container have."""
EACH = 8
QUIET_S = 300.0
COLLECTIONS = {"Job": "jobs", "PyTorchJob": "pytorchjobs", "MPIJob": "mpijobs", "TFJob": "tfjobs"}
ROOT = "/apis/scalecurve.dev/v1alpha1"


def experiment(runner: str, workers: int) -> dict[str, Any]:
    """One trial of so many workers; TFJob carries no all-reduce, and a training experiment needs a second count."""
    workload: dict[str, Any] = {"program": "allreduce", "sizes": {"minBytes": 8, "maxBytes": 1 << 20}}
    counts = [workers]
    if runner == "TFJob":
        workload = {"program": "tensorflow", "strategy": "multi-worker-mirrored"}
        counts = [workers, 2 * workers] if workers == 1 else [workers // 2, workers]
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": f"{runner.lower()}-{workers}"},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": counts, "batch": {"perWorker": 8}},
            "placement": {"workersPerNode": EACH},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "workload": {"image": "played", **workload},
            "measure": {"warmupSteps": 20, "windows": 5, "stepsPerWindow": 20, "repetitions": 1},
            "runner": runner,
        },
    }


def measure(runners: list[str], sizes: list[int]) -> tuple[list[Figure], list[dict[str, Any]]]:
    figures, details = [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalecurve-large-")))
        audit = Audit(folder, (USER, "admin"))
        needs = {"mpi-operator": {"MPIJob"}, "training-operator": {"PyTorchJob", "TFJob"}}
        operators = [name for name, kinds in needs.items() if kinds & set(runners)]
        tier = stack.enter_context(Tier(folder / "tier", operators=operators, flags={"apiserver": audit.flags}))
        tier.add_nodes(max(2, 2 * sizes[0], *sizes) // EACH + 2, gpus=EACH)
        tier.namespace("large")
        operator = OperatorProcess(tier)
        operator.start()
        stack.callback(operator.stop)
        seen = Experiments(tier.kubeconfig, "large")
        stack.callback(seen.stop)
        time.sleep(3)
        for workers in sizes:
            for runner in runners:
                say(f"{runner} of {workers}")
                found, more = one(tier, audit, operator, seen, runner, workers)
                figures += found
                details.append(more)
        if any(figure.missed for figure in figures):
            say("\n".join(operator.component.last_lines(10).splitlines()))
    return figures, details


def one(
    tier: Tier, audit: Audit, operator: OperatorProcess, seen: Experiments, runner: str, workers: int
) -> tuple[list[Figure], dict[str, Any]]:
    """One experiment, alone on the cluster."""
    body = experiment(runner, workers)
    name, label = body["metadata"]["name"], f"{runner} of {workers}"
    operator.reset_peak()
    cpu_ms, began = operator.cpu_ms, time.time()
    tier.rest.call("POST", f"{ROOT}/namespaces/large/scalingexperiments", body)
    while seen.ended_at(name) is None and time.time() - max(seen.changed_at, began) < QUIET_S:
        time.sleep(0.2)
    wall_s, peak, spent_ms = time.time() - began, operator.peak_mib, operator.cpu_ms - cpu_ms
    time.sleep(LATE_S)
    query = f"{ROOT}/namespaces/large/scalingtrials?labelSelector=scalecurve.dev/experiment={name}"
    trials = tier.rest.call("GET", query)["items"]
    largest: dict[str, Any] = max(trials, key=lambda trial: trial["spec"]["point"]["workers"], default={})
    status = largest.get("status", {})
    record = status.get("record", {})
    unread, ranks = None, 0
    try:
        ranks = len(unsealed(tier, record).ranks)
    except (KeyError, ValueError) as error:
        unread = repr(error)
    at = moments(audit, began, name, COLLECTIONS[runner])
    counts = count(audit, USER, began)
    took = at["job"] - at["applied"] if {"job", "applied"} <= set(at) else float("nan")
    collected = at["kept"] - at["listed"] if {"kept", "listed"} <= set(at) else float("nan")
    asked = largest.get("spec", {}).get("point", {}).get("workers", workers)
    figures = [
        Figure(label, "trials not Succeeded", sum(t.get("status", {}).get("phase") != "Succeeded" for t in trials), 0),
        Figure(label, "apply to job created", took, 1, "s"),
        Figure(label, "ranks missing in the record", asked - ranks, 0),
        Figure(label, "record", record.get("bytes", float("nan")) / 1024, BUDGET / 1024, "KiB"),
        Figure(label, "pods listed to result kept", collected, None, "s"),
        Figure(label, "operator RSS peak", peak, LIMIT_MIB, "MiB"),
        Figure(label, "operator CPU", spent_ms, None, "ms"),
        Figure(label, "requests", counts.reads + counts.writes),
        Figure(label, "wall", wall_s, None, "s"),
    ]
    details = {
        "run": label, "left out": record.get("leftOut", []), "ConfigMaps": len(record.get("configMaps", [])),
        "unread": unread, "phase": status.get("phase"), "message": status.get("message"),
        "status bytes": len(json.dumps(status)), "requests": dict(counts.by_kind),
    }  # fmt: skip
    tier.rest.call("DELETE", f"{ROOT}/namespaces/large/scalingexperiments/{name}")
    return figures, details


def unsealed(tier: Tier, record: dict[str, Any]) -> envelope.Envelope:
    """What is in the ConfigMaps of a record; the sha256 must be as its trial's status says."""
    maps = [tier.rest.call("GET", f"/api/v1/namespaces/large/configmaps/{each}") for each in record["configMaps"]]
    payload = b"".join(base64.b64decode(each["binaryData"][RECORD_KEY]) for each in maps)
    if envelope.digest(payload) != record["sha256"]:
        raise ValueError(f"sha256 {envelope.digest(payload)} where {record['sha256']} was announced")
    return envelope.unseal(payload)


def moments(audit: Audit, since: float, name: str, jobs: str) -> dict[str, float]:
    """When the experiment's creation was answered, its first job's creation came in, and its last result was kept."""
    found: dict[str, float] = {}
    for entry in audit.requests(since):
        what, verb, user = entry.get("objectRef") or {}, entry["verb"], entry["user"]["username"]
        resource, answered = what.get("resource"), unix(entry["stageTimestamp"])
        if (user, verb, resource) == ("admin", "create", "scalingexperiments"):
            found.setdefault("applied", answered)
        elif (user, verb, resource) == (USER, "create", jobs):
            found.setdefault("job", unix(entry["requestReceivedTimestamp"]))
        elif (user, verb, resource) == (USER, "get", "pods") and what.get("subresource") == "log":
            found["listed"] = unix(entry["requestReceivedTimestamp"])
        elif (user, verb, resource) == (USER, "patch", "scalingtrials"):
            found["kept"] = answered
    return found


def main() -> int:
    options = parser("Measure the operator with large points on every runner.")
    options.add_argument("--workers", default="1,8,64,512,4096")
    options.add_argument("--runners", default=",".join(COLLECTIONS))
    chosen = options.parse_args()
    sizes = [int(each) for each in chosen.workers.split(",")]
    return report(*measure(chosen.runners.split(","), sizes), chosen.output)


if __name__ == "__main__":
    sys.exit(main())
