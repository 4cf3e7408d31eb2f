"""What the tests look at: a Prometheus that has scraped a real `scalecurve run` and a real operator, each second.

The ranks are real processes on this machine, found at fixed ports; the operator is a real process with an experiment
whose pods are played (tests/cluster).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scalecurve_api.contract import METRICS_LINGER_ENV
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_local.devices.locks import LOCKS_ENV
from tests.cluster.applied import Applied, manifest
from tests.cluster.operator_process import OperatorProcess
from tests.prometheus import charted
from tests.prometheus.prometheus_server import PrometheusServer
from tests.worker.ports import RankPorts
from tools.devcluster.tier import Tier
from tools.devcluster.waiting import wait_until

LINGER_S = 20.0
"""Many scrapes long: the machine may be busy, and a scrape that takes a second is given up. One must succeed."""
_DURING_S = 5.0
"""The dashboard is looked at so long after the last window, while its rates still have something to show."""
NAMESPACE = "scraped"

EXPERIMENT: dict[str, Any] = {
    "apiVersion": "scalecurve.dev/v1alpha1",
    "kind": "ScalingExperiment",
    "metadata": {"name": "scraped"},
    "spec": {
        "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 16}},
        "workload": {
            "program": "custom",
            "command": ["python", str(Path(__file__).parent / "program.py")],
            "launcher": "processes",
        },
        "measure": {
            "warmupSteps": 5,
            "maxWarmupSteps": 40,
            "windows": 2,
            "stepsPerWindow": 160,
            "repetitions": 1,
            "exposedCommunication": True,
            "maxForeignLoad": 1.0,
        },
    },
}
"""Windows of two seconds. In far shorter ones the ranks of a busy machine differ, and the record takes the slowest."""


@dataclass(frozen=True)
class Scene:
    """A Prometheus that still runs, what it saw, and when (Unix seconds)."""

    prometheus: PrometheusServer
    records: Mapping[str, TrialRecord]
    begun: float
    during: float
    """While the last trial's ranks were still up."""
    end: float
    """When they were about to go, scraped for the last time."""


def static(job: str, ports: Mapping[str, int], namespace: str) -> dict[str, Any]:
    """Targets on this machine, with the labels that pods would have; pod → port."""
    labels = {"namespace": namespace, "node": "here"}
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {**labels, "pod": pod}} for pod, port in sorted(ports.items())
    ]
    return {"job_name": job, "scrape_interval": "1s", "static_configs": targets}


def run(
    experiment: Mapping[str, Any], folder: Path, first_port: int, linger_s: float = LINGER_S
) -> dict[str, TrialRecord]:
    """`scalecurve run` to its end; the records by trial. Raises AssertionError with what it said when it fails."""
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(dict(experiment)), encoding="utf-8")
    bundle = folder / "bundle"
    scalecurve = str(Path(sys.executable).with_name("scalecurve"))
    command = [scalecurve, "run", str(file), "--bundle", str(bundle), "--oversubscribe"]
    own = {METRICS_LINGER_ENV: f"{linger_s:g}", LOCKS_ENV: str(folder)}
    done = subprocess.run(
        [*command, "--quiet", "--metrics-port", str(first_port)],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    files = sorted(bundle.glob("trials/*/trial.json"))
    assert files, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return {file.parent.name: TrialRecord.model_validate_json(file.read_text(encoding="utf-8")) for file in files}


@contextmanager
def scene(
    tier: Tier, folder: Path, experiment: Mapping[str, Any] = EXPERIMENT, repetitions: int = 1
) -> Iterator[Scene]:
    """Scrape both from their beginning to their end; `repetitions` are the played experiment's."""
    ports = RankPorts()
    first = ports.take_pair()
    namespace = tier.namespace(NAMESPACE)
    with OperatorProcess(tier, namespace) as operator:
        configs = [
            static("scalecurve-trials", {"worker-0": first, "worker-1": first + 1}, namespace),
            static("scalecurve-operator", {"operator-0": operator.metrics_port}, namespace),
        ]
        with PrometheusServer(folder, configs, charted.rules(namespace)) as prometheus:
            wait_until(lambda: bool(prometheus.instant("scalecurve_operator_leading == 1")), "the operator's metrics")
            begun = time.time()
            applied = Applied.apply(
                tier, manifest(namespace, repetitions=repetitions, seconds=4 if repetitions > 1 else 1)
            )
            records = run(experiment, folder, first)
            applied.final(300)
            last = max(window.start_ns + window.wall_ns for each in records.values() for window in each.windows)
            yield Scene(prometheus, records, begun, last / 1e9 + _DURING_S, last / 1e9 + LINGER_S)
    ports.release()
