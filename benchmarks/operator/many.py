"""One experiment of very many trials on pods that end at once: does the operator keep its pace, and its size?

    python -m benchmarks.operator.many [--trials 10000] [--parallelism 8] [--output json]

A whole control plane with the real job controller, scheduler and kwok; the pods' results are played. The gap is from a
job that says it has ended to the creation of the job that takes its place, both seen in one independent watch.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.operator.rig.audit import LATE_S, Audit, count
from benchmarks.operator.rig.bars import Figure, nearest_rank, parser, report, say
from benchmarks.operator.rig.process import USER, OperatorProcess
from benchmarks.operator.rig.watching import Experiments, Jobs

from tools.devcluster.tier import Tier  # isort: skip

WORKERS = [1, 2, 4, 8]
QUIET_S = 120.0
SAMPLE_S = 2.0


def experiment(trials: int, parallelism: int) -> dict[str, Any]:
    """As near to so many trials as four worker counts and up to ten repetitions allow; a quarter as many series."""
    repetitions = next(each for each in (10, 5, 2, 1) if trials // (4 * each) >= min(250, trials // 40))
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "many"},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": WORKERS, "batch": {"perWorker": 8}},
            "placement": {"workersPerNode": 8},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "workload": {"program": "torch", "image": "played", "env": {"PLAY": "succeed"}},
            "matrix": {"env.CASE": list(range(max(1, trials // (4 * repetitions))))},
            "measure": {"warmupSteps": 2, "windows": 2, "stepsPerWindow": 3, "repetitions": repetitions},
            "parallelism": parallelism,
            "runner": "Job",
        },
    }


def measure(trials: int, parallelism: int) -> tuple[list[Figure], dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalecurve-many-")))
        audit = Audit(folder, (USER,))
        tier = stack.enter_context(Tier(folder / "tier", operators=(), flags={"apiserver": audit.flags}))
        tier.add_nodes(2 * parallelism, gpus=8)
        tier.namespace("many")
        operator = OperatorProcess(tier)
        operator.start()
        stack.callback(operator.stop)
        seen, jobs = Experiments(tier.kubeconfig, "many"), Jobs(tier.kubeconfig)
        stack.callback(seen.stop)
        stack.callback(jobs.stop)
        time.sleep(3)
        cpu_ms, began, rss = operator.cpu_ms, time.time(), [(0, operator.rss_mib)]
        body = experiment(trials, parallelism)
        tier.rest.call("POST", "/apis/scalecurve.dev/v1alpha1/namespaces/many/scalingexperiments", body)
        said = 0.0
        while not seen.final():
            time.sleep(SAMPLE_S)
            rss.append((len(jobs.ended), operator.rss_mib))
            if time.time() - said > 60:
                said = time.time()
                say(f"{len(jobs.ended)} trials ended after {said - began:.0f} s, RSS {rss[-1][1]:.0f} MiB")
            if time.time() - max(seen.changed_at, *jobs.ended.values(), *jobs.created.values(), began) > QUIET_S:
                say("nothing changes any more")
                break
        wall_s = time.time() - began
        time.sleep(5)
        spent_ms, after_mib = operator.cpu_ms - cpu_ms, operator.rss_mib
        time.sleep(LATE_S)
        counts = count(audit, USER, began)
        newest = seen.newest.get("many", {}).get("status", {})
        objects = "/apis/scalecurve.dev/v1alpha1/namespaces/many/scalingtrials"
        phases = [each.get("status", {}).get("phase") for each in _all(tier, objects)]
        left = len(_all(tier, "/apis/batch/v1/namespaces/many/jobs"))
        gaps = jobs.gaps(parallelism)
        doubled = sum(len(uids) - 1 for uids in jobs.uids.values())
        served = counts.served_ms()
    n, label = int(newest.get("total", trials)), f"{trials} trials"
    half = [mib for ended, mib in rss if ended <= n / 2]
    figures = [
        Figure(label, "not Succeeded", n - phases.count("Succeeded"), 0),
        Figure(label, "doubled: jobs beyond one a trial", doubled, 0),
        Figure(label, "jobs left over", left, 0),
        Figure(label, "end to next creation, median", nearest_rank(gaps, 0.5), 0.5, "s"),
        Figure(label, "end to next creation, p99", nearest_rank(gaps, 0.99), 2, "s"),
        Figure(label, "end to next creation, longest", max(gaps, default=float("nan")), None, "s"),
        Figure(label, "RSS peak", max(mib for _, mib in rss), 150, "MiB"),
        Figure(label, "RSS growth in the second half", after_mib - max(half), 15, "MiB"),
        Figure(label, "RSS before", rss[0][1], None, "MiB"),
        Figure(label, "RSS after", after_mib, None, "MiB"),
        Figure(label, "status, largest", seen.largest_status / 1024, 100, "KiB"),
        Figure(label, "API requests a trial", (counts.reads + counts.writes) / n),
        Figure(label, "writes a trial, Events included", counts.writes / n, 12),
        Figure(label, "reads a trial", counts.reads / n, 3),
        Figure(label, "operator CPU a trial", spent_ms / n, 60, "ms"),
        Figure(label, "trials a second", n / wall_s),
        Figure(label, "wall", wall_s, None, "s"),
    ]
    every = max(1, len(rss) // 60)
    details = {
        "requests a trial": counts.per(n), "server ms": served, "refused": dict(counts.refused),
        "status": {name: newest.get(name) for name in ("phase", "message", "progress", "counts")},
        "RSS": [(ended, round(mib, 1)) for ended, mib in rss[::every]], "parallelism": parallelism,
    }  # fmt: skip
    return figures, details


def _all(tier: Tier, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    more = ""
    while True:
        page = tier.rest.call("GET", f"{path}?limit=500{more}")
        found += page["items"]
        token = page["metadata"].get("continue")
        if not token:
            return found
        more = f"&continue={token}"


def main() -> int:
    options = parser("Measure the operator over one very large experiment.")
    options.add_argument("--trials", type=int, default=10_000)
    options.add_argument("--parallelism", type=int, default=8)
    chosen = options.parse_args()
    return report(*measure(chosen.trials, chosen.parallelism), chosen.output)


if __name__ == "__main__":
    sys.exit(main())
