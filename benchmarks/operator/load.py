"""What one trial costs and how long its end takes: 1, 100 and 500 experiments of one trial at once.

    python -m benchmarks.operator.load [--runs cold,warm,100,500,...] [--repeat N] [--output json]

Each run has a control plane of its own: etcd, API server with an audit log, controller manager without its job
controller, scheduler; the operator as shipped, with its own RBAC and room in its pool for all. The job controller
and the kubelet are played (rig/player.py), each job holds for a second. So what is measured is the operator.

Runs: cold, warm, 100, 500, hold-0, hold-20 (100 trials), set (one experiment of 100 trials, all at once),
500-fair (API priority and fairness on), 429 (100 trials at an API server that takes two writes at a time), and kills of
100 trials: kill-first (at the first Running, down 5 s), kill-40 (at 40 Running, at once), kill-30-ended (down 5 s),
kill-held and kill-held-25 (hold 20 s, all Running). Times are not judged beside kills and refusals.

Counts are exact; times hold for this machine, on which everything shares the cores.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.operator.rig.audit import LATE_S, Audit, count, unix
from benchmarks.operator.rig.bars import Figure, nearest_rank, parser, report, say
from benchmarks.operator.rig.process import USER, OperatorProcess
from benchmarks.operator.rig.watching import EXPERIMENTS, Experiments

from tools.devcluster.components import Component  # isort: skip
from tools.devcluster.rest import ApiError  # isort: skip
from tools.devcluster.tier import Tier  # isort: skip

from scalecurve_api.spec.object_names import TRIAL_LABEL

AT_ONCE = 16
QUIET_S, SETTLE_S = 75.0, 6.0
FAIR = ["--enable-priority-and-fairness=true"]
BUSY = ["--max-mutating-requests-inflight=2", "--max-requests-inflight=4"]
ASSETS = {"jobs": "/apis/batch/v1", "pods": "/api/v1", "services": "/api/v1"}


@dataclass(frozen=True)
class Kill:
    """When the operator is killed, and for how long it is down."""

    when: Callable[[Scene], bool]
    down_s: float


@dataclass(frozen=True)
class Run:
    """One row. `warm` experiments are run before, one at a time, on the same cluster."""

    trials: int
    hold_s: float = 1.0
    fair: bool = False
    busy: bool = False
    """the API server takes so few requests at a time that it refuses many with 429"""
    kill: Kill | None = None
    one_experiment: bool = False
    warm: int = 0
    repeat: int = 1


class Scene:
    """A control plane, a player, an observer and the operator, for one run."""

    def __init__(self, run: Run, stack: ExitStack, profile: Path | None = None) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalecurve-load-")))
        self.audit = Audit(folder)
        flags = {
            "apiserver": [*self.audit.flags, *(FAIR if run.fair else []), *(BUSY if run.busy else [])],
            "controller-manager": ["--controllers=*,-job-controller"],
        }
        self.tier = stack.enter_context(Tier(folder / "tier", operators=(), kwok=False, player=False, flags=flags))
        self.tier.add_nodes(1, gpus=0, prefix="fake")
        self.tier.namespace("load")
        self.journal = folder / "journal"
        self.journal.touch()
        player = Component(
            "player",
            [
                sys.executable, "-m", "benchmarks.operator.rig.player", self.tier.kubeconfig,
                f"--port={self.tier.kubelet_port}", f"--certificate={self.tier.authority.folder / 'kubelet.crt'}",
                f"--hold={run.hold_s}", f"--journal={self.journal}",
            ],
            self.tier.logs / "player.log",
            lambda: True,
        )  # fmt: skip
        player.start()
        stack.callback(player.kill)
        room = {"SCALECURVE_POOLS": f"default={max(run.trials, 2)}"}
        self.operator = OperatorProcess(self.tier, room, profile)
        self.ready_s = self.operator.start()
        stack.callback(self.operator.stop)
        self.observer = Experiments(self.tier.kubeconfig, "load")
        stack.callback(self.observer.stop)
        time.sleep(SETTLE_S)

    def played(self, what: str) -> list[dict[str, Any]]:
        """Entries of the player's journal."""
        entries = (json.loads(line) for line in self.journal.read_text().splitlines())
        return [entry for entry in entries if entry["what"] == what]

    def running(self) -> int:
        """Experiments seen Running."""
        return sum("Running" in phases for phases in list(self.observer.phases.values()))

    def post(self, name: str, trials: int = 1) -> None:
        """Create an experiment."""
        body = self._experiment(name, trials)
        while True:
            try:
                self.tier.rest.call("POST", "/apis/scalecurve.dev/v1alpha1/namespaces/load/scalingexperiments", body)
                return
            except ApiError as error:
                if error.status != 429:
                    raise
                time.sleep(0.1)

    def _experiment(self, name: str, trials: int) -> dict[str, Any]:
        return {
            "apiVersion": "scalecurve.dev/v1alpha1",
            "kind": "ScalingExperiment",
            "metadata": {"name": name},
            "spec": {
                "scaling": {"modes": ["weak"], "workers": [2], "batch": {"perWorker": 1}},
                "placement": {"workersPerNode": 2},
                "workload": {"program": "allreduce", "image": "played", "sizes": {"minBytes": 8, "maxBytes": 8}},
                "measure": {"repetitions": trials},
                "parallelism": trials,
                "runner": "Job",
            },
        }

    def until_ended(self, experiments: int) -> None:
        """Return when all have ended, or nothing has changed for long."""
        while self.observer.final() < experiments:
            if time.time() - max(self.observer.changed_at, self.journal.stat().st_mtime) > QUIET_S:
                say(f"{experiments - self.observer.final()} experiments have not ended")
                return
            time.sleep(0.05)

    def kill(self, kill: Kill) -> None:
        """Kill the operator when it is time, and start it again."""
        while not kill.when(self):
            time.sleep(0.002)
        self.operator.kill()
        time.sleep(kill.down_s)
        self.operator.start()


KILLS = {
    "kill-first": Run(100, kill=Kill(lambda scene: scene.running() >= 1, 5), repeat=4),
    "kill-40": Run(100, kill=Kill(lambda scene: scene.running() >= 40, 0)),
    "kill-30-ended": Run(100, kill=Kill(lambda scene: scene.observer.final() >= 30, 5)),
    "kill-held": Run(100, hold_s=20, kill=Kill(lambda scene: scene.running() >= 100, 0)),
    "kill-held-25": Run(100, hold_s=20, kill=Kill(lambda scene: scene.running() >= 100, 25)),
}
RUNS = {
    "cold": Run(1),
    "warm": Run(1, warm=1, repeat=3),
    "100": Run(100, repeat=3),
    "hold-0": Run(100, hold_s=0),
    "hold-20": Run(100, hold_s=20),
    "set": Run(100, one_experiment=True),
    "500": Run(500, repeat=2),
    "500-fair": Run(500, fair=True),
    "429": Run(100, busy=True),
    **KILLS,
}


def measure(label: str, run: Run, profile: Path | None = None) -> tuple[list[Figure], dict[str, Any]]:
    """One run on a fresh control plane."""
    with ExitStack() as stack:
        scene = Scene(run, stack, profile)
        operator = scene.operator
        for index in range(run.warm):
            scene.post(f"warm-{index}")
            scene.until_ended(index + 1)
            time.sleep(SETTLE_S)
        ended_before, began_before = run.warm, time.time()
        before_mib, cpu_ms = operator.rss_mib, operator.cpu_ms
        operator.reset_peak()
        killer = threading.Thread(target=scene.kill, args=(run.kill,)) if run.kill else None
        if killer:
            killer.start()
        names = ["set"] if run.one_experiment else [f"e-{index}" for index in range(run.trials)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: scene.post(name, run.trials if run.one_experiment else 1), names))
        posted_s = time.time() - began_before
        scene.until_ended(ended_before + len(names))
        wall_s = time.time() - began_before
        if killer:
            killer.join()
        time.sleep(SETTLE_S)
        peak, after_mib, spent_ms = operator.peak_mib, operator.rss_mib, operator.cpu_ms - cpu_ms
        time.sleep(LATE_S)
        counts = count(scene.audit, USER, began_before)
        state = end_state(scene, run)
        latencies = end_latencies(scene, names)
        waits = collect_waits(scene, began_before)
        log = [line for line in operator.log.read_text().splitlines() if '"level": "info"' not in line]
    n = run.trials
    bars = n > 1 or run.warm
    figures = [
        Figure(label, "not Succeeded", n - state["succeeded"], 0),
        Figure(label, "doubled: jobs beyond one a trial", state["doubled"], 0),
        Figure(label, "left over: jobs, pods, services", sum(state["left"].values()), 0),
        Figure(label, "without its record", state["without record"], 0),
        Figure(label, "writes a trial, Events included", counts.writes / n, None if run.busy else 12),
        Figure(label, "of them Events", counts.events / n),
        Figure(label, "reads a trial", counts.reads / n, None if run.kill or run.busy else 3),
        Figure(label, "lease requests in the run", counts.leases),
        Figure(label, "refused requests", sum(counts.refused.values())),
        Figure(
            label,
            "job end to terminal, median",
            nearest_rank(latencies, 0.5),
            None if run.kill or run.busy else 0.3,
            "s",
        ),
        Figure(
            label, "job end to terminal, p99", nearest_rank(latencies, 0.99), None if run.kill or run.busy else 2, "s"
        ),
        Figure(label, "job end to terminal, longest", max(latencies, default=float("nan")), None, "s"),
        Figure(label, "of it until collecting begins, median", nearest_rank(waits, 0.5), None, "s"),
        Figure(label, "operator CPU a trial", spent_ms / n, 60 if bars and not (run.kill or run.busy) else None, "ms"),
        Figure(label, "RSS before", before_mib, None, "MiB"),
        Figure(label, "RSS peak", peak, 120, "MiB"),
        Figure(label, "RSS after", after_mib, 120, "MiB"),
        Figure(label, "wall", wall_s, None, "s"),
    ]
    details = {
        "run": label, "requests a trial": counts.per(n), "server ms": counts.served_ms(),
        "refused": dict(counts.refused), "state": state,
        "posted in s": round(posted_s, 2), "ready in s": round(scene.ready_s, 2), "log, but for info": log[-20:],
    }  # fmt: skip
    return figures, details


def end_state(scene: Scene, run: Run) -> dict[str, Any]:
    """What is there when all is over."""
    rest = scene.tier.rest
    trials = rest.call("GET", "/apis/scalecurve.dev/v1alpha1/namespaces/load/scalingtrials")["items"]
    trials = [trial for trial in trials if not trial["metadata"]["name"].startswith("warm-")]
    experiments = rest.call("GET", EXPERIMENTS)["items"]
    maps = {each["metadata"]["name"] for each in rest.call("GET", "/api/v1/namespaces/load/configmaps")["items"]}
    uids = Counter(entry["name"] for entry in scene.played("began"))
    records = [trial.get("status", {}).get("record", {}).get("configMaps", []) for trial in trials]
    return {
        "succeeded": sum(trial.get("status", {}).get("phase") == "Succeeded" for trial in trials),
        "experiments": dict(Counter(each.get("status", {}).get("phase") for each in experiments)),
        "doubled": sum(many - 1 for many in uids.values())
        + sum(trial.get("status", {}).get("attempts", 1) - 1 for trial in trials),
        "without record": run.trials - sum(bool(record) and set(record) <= maps for record in records),
        "left": {kind: len(rest.call("GET", f"{root}/namespaces/load/{kind}")["items"])
                 for kind, root in ASSETS.items()},
    }  # fmt: skip


def collect_waits(scene: Scene, since: float) -> list[float]:
    """Seconds from a job's end to the operator's first request for it, as the API server received it."""
    ends = {entry["name"].rpartition("-a")[0]: entry["at"] for entry in scene.played("ended")}
    found: dict[str, float] = {}
    for entry in scene.audit.requests(since):
        what = entry.get("objectRef") or {}
        if (entry["user"]["username"], entry["verb"], what.get("resource")) != (USER, "list", "pods"):
            continue
        query = parse_qs(urlsplit(entry["requestURI"]).query).get("labelSelector", [""])[0]
        trial = dict(part.split("=") for part in query.split(",") if "=" in part).get(TRIAL_LABEL, "")
        received = unix(entry["requestReceivedTimestamp"])
        if trial in ends and received > ends[trial] - 1:
            found.setdefault(trial, received - ends[trial])
    return list(found.values())


def end_latencies(scene: Scene, names: list[str]) -> list[float]:
    """Seconds from a job's end to its experiment seen ended; of one experiment, from its last job's end."""
    found = []
    ends = {entry["name"]: entry["at"] for entry in scene.played("ended")}
    for name in names:
        seen = scene.observer.ended_at(name)
        ended = max((at for job, at in ends.items() if job.startswith(f"{name}-")), default=None)
        if seen is not None and ended is not None:
            found.append(seen - ended)
    return found


def main() -> int:
    options = parser("Measure what the operator costs and how long it takes, under load.")
    options.add_argument("--runs", default=",".join(RUNS), help=f"of {', '.join(RUNS)}")
    options.add_argument("--repeat", type=int, help="each run so often")
    options.add_argument("--profile", type=Path, help="of the operator, as cProfile writes it; makes it slower")
    chosen = options.parse_args()
    figures: list[Figure] = []
    details = []
    for name in chosen.runs.split(","):
        run = RUNS[name]
        for index in range(chosen.repeat or run.repeat):
            label = f"{name}#{index + 1}" if (chosen.repeat or run.repeat) > 1 else name
            say(f"run {label}")
            found, more = measure(label, run, chosen.profile)
            figures += found
            details.append(more)
            for figure in found:
                if figure.missed:
                    say(f"{label}: {figure.what} {figure.value:.3f}, bar {figure.most:g}")
    return report(figures, details, chosen.output)


if __name__ == "__main__":
    sys.exit(main())
