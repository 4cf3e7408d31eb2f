"""Pods that print anything, on a real API server: each costs its own trial, and neither memory nor other trials."""

from __future__ import annotations

import base64
import json
import resource
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_api.spec.job_kinds import Runner
from tests.cluster.applied import COLLECTIONS, Applied, manifest
from tests.cluster.cli_desk import Desk
from tests.cluster.operator_process import OperatorProcess
from tests.operator.hostile import BOMBS, PAYLOADS
from tests.waiting import eventually
from tools.devcluster.rest import ApiError
from tools.devcluster.tier import Tier

MIB = 1 << 20
LIMIT_MIB, MOST_RSS_MIB, MOST_S = 512, 200, 10.0
TRIAL = "weak-1-1x1-r1"
FINAL = ("Succeeded", "Failed", "Invalid")


def record(payload: bytes) -> dict[str, str]:
    """The environment of a pod that prints this record."""
    return {"PLAY_RECORD": base64.b64encode(zlib.compress(payload)).decode()}


CASES: dict[str, Callable[[], dict[str, str]]] = {
    **{name: lambda make=make: record(make(TRIAL, 1)) for name, make in PAYLOADS.items()},
    **{name: lambda make=make: record(make(TRIAL)) for name, make in BOMBS.items()},
    "another summary": lambda: {"PLAY_SUMMARY": json.dumps({"throughput": 1e9})},
}
GOOD: dict[str, dict[str, str]] = {
    # The message is none then, and the record in the log counts.
    "integers beyond int64": {"PLAY_SUMMARY": json.dumps({"samples": 10**30})},
    "50 MiB of short lines": {"PLAY_FLOOD": "50"},
}


class Watched:
    """When jobs and trials of a namespace were first seen to have ended, and the memory of a process tree."""

    def __init__(self, tier: Tier, namespace: str, pid: int) -> None:
        self.tier, self.namespace, self.pid = tier, namespace, pid
        self.jobs: dict[str, float] = {}
        self.trials: dict[str, float] = {}
        self.tree_mib = 0.0
        self.stopped = False

    def look(self) -> None:
        while not self.stopped:
            with suppress(ApiError, OSError):
                now = time.monotonic()
                self.tree_mib = max(self.tree_mib, sum(map(rss_mib, [self.pid, *children(self.pid)])))
                for job in self._items(COLLECTIONS[Runner.job].format(self.namespace)):
                    if any(entry["status"] == "True" for entry in (job.get("status") or {}).get("conditions") or []):
                        self.jobs.setdefault(job["metadata"]["labels"]["scalecurve.dev/trial"], now)
                for trial in self._items(f"/apis/scalecurve.dev/v1alpha1/namespaces/{self.namespace}/scalingtrials"):
                    if (trial.get("status") or {}).get("phase") in FINAL:
                        self.trials.setdefault(trial["metadata"]["name"], now)
            time.sleep(0.1)

    def _items(self, path: str) -> list[dict[str, Any]]:
        return list(self.tier.rest.call("GET", path)["items"])

    def seconds(self, trial: str) -> float:
        """From the end of its job to its own; 0 when both were seen at once."""
        return self.trials[trial] - self.jobs.get(trial, self.trials[trial])


def rss_mib(pid: int, field: str = "VmRSS") -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split(f"{field}:")[1].split()[0]) / 1024 if field in text else 0.0


def children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


@contextmanager
def watched(tier: Tier, namespace: str, operator: OperatorProcess) -> Iterator[Watched]:
    """The operator may have 512 MiB of addresses; its peak begins anew."""
    resource.prlimit(operator.pid, resource.RLIMIT_AS, (LIMIT_MIB * MIB, LIMIT_MIB * MIB))
    Path(f"/proc/{operator.pid}/clear_refs").write_text("5")
    seen = Watched(tier, namespace, operator.pid)
    thread = threading.Thread(target=seen.look)
    thread.start()
    try:
        yield seen
    finally:
        seen.stopped = True
        thread.join()


def hostile(namespace: str, name: str, environment: dict[str, str], pool: str = "default") -> dict[str, Any]:
    """An experiment whose pods leave that."""
    env = {"PLAY": "succeed", **environment}
    return manifest(namespace, name=name.lower().replace(" ", "-"), pool=pool, workload={"env": env})


@pytest.mark.timeout(600)
def test_hostile_records_end_their_own_trials(tier: Tier, namespace: str, tmp_path: Path) -> None:
    """All in one pool of one place, whose last experiment is an honest one; another pool goes on beside it."""
    settings = {"POOLS": "default=1,other=1"}
    with OperatorProcess(tier, namespace, settings=settings) as operator, watched(tier, namespace, operator) as seen:
        cases = {**CASES, **{name: lambda env=env: env for name, env in GOOD.items()}}
        applied = {name: Applied.apply(tier, hostile(namespace, f"c-{name}", make())) for name, make in cases.items()}
        last = Applied.apply(tier, manifest(namespace, name="honest"))
        others = 0
        while last.status.get("phase") not in ("Succeeded", "Failed"):  # until pytest's limit
            other = Applied.apply(tier, manifest(namespace, name=f"other-{others}", pool="other"))
            assert other.final()["phase"] == "Succeeded", f"another pool: {other.trials()}"
            others += 1
        assert last.status["phase"] == "Succeeded"
        eventually(lambda: len(seen.trials) >= 2 * (len(applied) + 1 + others), "every end was seen")
        for name, each in applied.items():
            expected = ("Succeeded", None) if name in GOOD else ("Invalid", "RecordsUnreadable")
            for trial, status in each.trials().items():
                ended = (status["phase"], status.get("reason"))
                print(f"{trial}: {ended} {seen.seconds(trial):.1f} s {status.get('message', '')[:120]}")
                assert ended == expected, trial
                assert seen.seconds(trial) <= MOST_S, trial
        peak = rss_mib(operator.pid, "VmHWM")
        print(f"operator's peak {peak:.0f} MiB, with its children {seen.tree_mib:.0f} MiB; {others} others beside")
        assert peak <= MOST_RSS_MIB
        assert seen.tree_mib <= LIMIT_MIB
        assert operator.alive
        assert operator.output().count("holding the lease") == 1, "it was never restarted"
    assert others >= 3
    desk = Desk(tier, tmp_path, namespace)
    for name in ("newlines", "1e999", "another summary"):
        desk("pull", applied[name].name, "--into", name)
        for trial in open_bundle(tmp_path / name).trials:
            assert trial.record is not None
            assert (trial.record.phase, trial.record.reason) == ("Invalid", "RecordsUnreadable"), (
                "as the operator judged"
            )
