"""At rest beside 500 finished experiments with 5,000 trials: what the operator costs, and how soon a new one is ready.

    python -m benchmarks.operator.rest [--experiments 500] [--trials 10] [--seconds 60] [--output json]

One experiment is run by the operator itself; the others are copies of its objects, statuses included. After a restart
the time to ready, and to the first job of an experiment that was applied meanwhile.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.operator.rig.audit import LATE_S, Audit, count
from benchmarks.operator.rig.bars import Figure, nearest_rank, parser, report, say
from benchmarks.operator.rig.process import USER, OperatorProcess
from benchmarks.operator.rig.watching import Experiments, Jobs
from scalecurve_api.spec.object_names import EXPERIMENT_LABEL

from tools.devcluster.tier import Tier  # isort: skip

ROOT = "/apis/scalecurve.dev/v1alpha1/namespaces/rest"
RESTARTS = 3
AT_ONCE = 8


def experiment(name: str, trials: int) -> dict[str, Any]:
    """Two worker counts, and as many repetitions as it takes."""
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 8}},
            "placement": {"workersPerNode": 8},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "workload": {"program": "torch", "image": "played"},
            "measure": {"warmupSteps": 2, "windows": 2, "stepsPerWindow": 3, "repetitions": max(1, trials // 2)},
            "runner": "Job",
        },
    }


def copies(tier: Tier, numbers: list[int]) -> None:
    """Finished experiments like the one named model, which the operator made, with all their trials."""
    model = tier.rest.call("GET", f"{ROOT}/scalingexperiments/model")
    trials = tier.rest.call("GET", f"{ROOT}/scalingtrials?labelSelector={EXPERIMENT_LABEL}=model")["items"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: _copy(tier, model, trials, f"rest-{number}"), numbers))


def _copy(tier: Tier, model: dict[str, Any], trials: list[dict[str, Any]], name: str) -> None:
    made = _create(tier, "scalingexperiments", {**model, "metadata": {"name": name}})
    for trial in trials:
        new = copy.deepcopy(trial)
        owner = {**new["metadata"]["ownerReferences"][0], "name": name, "uid": made["metadata"]["uid"]}
        new["metadata"] = {
            "name": name + new["metadata"]["name"].removeprefix("model"),
            "labels": {**new["metadata"]["labels"], EXPERIMENT_LABEL: name},
            "ownerReferences": [owner],
        }
        _create(tier, "scalingtrials", new)


def _create(tier: Tier, plural: str, body: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = tier.rest.call("POST", f"{ROOT}/{plural}", body)
    status = {**made, "status": body["status"]}
    done: dict[str, Any] = tier.rest.call("PUT", f"{ROOT}/{plural}/{made['metadata']['name']}/status", status)
    return done


def _listed(audit: Audit) -> None:
    """Return when kopf has listed all it watches: no request but for the lease in the last ten seconds."""
    while True:
        time.sleep(10 + LATE_S)
        counts = count(audit, USER, time.time() - 10 - LATE_S)
        if not counts.reads + counts.writes:
            return


def measure(experiments: int, trials: int, seconds: float) -> tuple[list[Figure], dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalecurve-rest-")))
        audit = Audit(folder, (USER,))
        tier = stack.enter_context(Tier(folder / "tier", operators=(), flags={"apiserver": audit.flags}))
        tier.add_nodes(2, gpus=8)
        tier.namespace("rest")
        operator = OperatorProcess(tier)
        empty_ready_s = operator.start()
        stack.callback(operator.stop)
        seen, jobs = Experiments(tier.kubeconfig, "rest"), Jobs(tier.kubeconfig)
        stack.callback(seen.stop)
        stack.callback(jobs.stop)
        tier.rest.call("POST", f"{ROOT}/scalingexperiments", experiment("model", trials))
        while seen.ended_at("model") is None:
            time.sleep(0.5)
        empty_mib = operator.rss_mib
        operator.kill()
        say("copying")
        copies(tier, list(range(1, experiments)))
        ready, first_job, watched = [], [], []
        for number in range(RESTARTS):
            say(f"start {number + 1}")
            # With a finished experiment's last copy applied while nobody watches.
            tier.rest.call("POST", f"{ROOT}/scalingexperiments", experiment(f"late-{number}", 2))
            began = time.time()
            ready.append(operator.start(120))
            while not any(name.startswith(f"late-{number}-") for name in list(jobs.created)):
                time.sleep(0.02)
                if time.time() - began > 120:
                    break
            created = [at for name, at in jobs.created.items() if name.startswith(f"late-{number}-")]
            first_job.append(min(created, default=float("nan")) - began)
            while seen.ended_at(f"late-{number}") is None and time.time() - began < 120:
                time.sleep(0.2)
            watched.append(operator.rss_mib)
            if number < RESTARTS - 1:
                operator.kill()
        _listed(audit)
        say(f"at rest for {seconds:.0f} s")
        cpu_ms, since = operator.cpu_ms, time.time()
        time.sleep(seconds)
        spent_ms, until = operator.cpu_ms - cpu_ms, time.time()
        rest_mib = operator.rss_mib
        time.sleep(LATE_S)
        counts = count(audit, USER, since, until)
        left = len(tier.rest.call("GET", "/apis/batch/v1/namespaces/rest/jobs")["items"])
        phases = [each.get("status", {}).get("phase") for each in
                  tier.rest.call("GET", f"{ROOT}/scalingexperiments")["items"]]  # fmt: skip
    label = f"{experiments} of {trials}"
    figures = [
        Figure(label, "operator CPU at rest", spent_ms / 10 / (until - since), 2, "%"),
        Figure(label, "restart to ready, longest of 3", max(ready), 30, "s"),
        Figure(label, "restart to first job, longest of 3", nearest_rank(first_job, 1.0), 30, "s"),
        Figure(label, "experiments not Succeeded", len(phases) - phases.count("Succeeded"), 0),
        Figure(label, "jobs left over", left, 0),
        Figure(label, "requests at rest, leases apart", counts.reads + counts.writes),
        Figure(label, "lease requests at rest", counts.leases),
        Figure(label, "RSS at rest", rest_mib, 150, "MiB"),
        Figure(label, "RSS with one experiment", empty_mib, None, "MiB"),
        Figure(label, "start to ready, empty cluster", empty_ready_s, None, "s"),
    ]
    details = {"ready": ready, "first job": first_job, "RSS after each start": watched, "seconds": until - since,
               "requests at rest": dict(counts.by_kind)}  # fmt: skip
    return figures, details


def main() -> int:
    options = parser("Measure the operator at rest beside many finished experiments.")
    options.add_argument("--experiments", type=int, default=500)
    options.add_argument("--trials", type=int, default=10)
    options.add_argument("--seconds", type=float, default=60)
    chosen = options.parse_args()
    return report(*measure(chosen.experiments, chosen.trials, chosen.seconds), chosen.output)


if __name__ == "__main__":
    sys.exit(main())
