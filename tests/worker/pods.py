"""Pods of a trial as process groups of this machine: own folders, own variables, one log each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scalecurve_api.record.termination import Termination, read
from scalecurve_api.spec.trial import TrialSpec
from tests.waiting import PATIENCE_S
from tests.worker.ports import free_port
from tests.worker.worker_ranks import rank_environment

CORES = sorted(os.sched_getaffinity(0))


@dataclass
class PodRun:
    """A started pod; standard output and error go to one log, as in a container."""

    process: subprocess.Popen[bytes]
    folder: Path

    def end(self, timeout: float = PATIENCE_S) -> int:
        """Its exit code."""
        return self.process.wait(timeout)

    @property
    def log(self) -> list[str]:
        """Lines of its log so far."""
        return (self.folder / "log").read_text(errors="replace").splitlines()

    @property
    def termination(self) -> Termination:
        """What it left."""
        found = read((self.folder / "termination").read_text())
        assert found is not None
        return found


STARTED: list[PodRun] = []
"""All pods of the running test."""


def start_pod(folder: Path, trial: TrialSpec, **environment: str) -> PodRun:
    """One pod; ``environment`` is what its job kind sets."""
    folder.mkdir(parents=True)
    given = {
        "SCALECURVE_TERMINATION_LOG": str(folder / "termination"),
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONWARNINGS": "ignore",
        **environment,
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "scalecurve_worker.launch.pod"],
            env=rank_environment(folder / "out", trial, **given),
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    STARTED.append(PodRun(process, folder))
    return STARTED[-1]


def start_pods(folder: Path, trial: TrialSpec, count: int, **environment: str) -> list[PodRun]:
    """Pods of an indexed Job, one core each, on nodes of their own."""
    port = free_port()
    return [
        start_pod(
            folder / f"pod-{index}",
            trial,
            **{
                "SCALECURVE_PODS": str(count),
                "JOB_COMPLETION_INDEX": str(index),
                "SCALECURVE_COORDINATOR": f"127.0.0.1:{port}",
                "SCALECURVE_CORES": str(CORES[index % len(CORES)]),
                "POD_NAME": f"trial-{index}",
                "NODE_NAME": f"node-{index}",
                **environment,
            },
        )
        for index in range(count)
    ]


def on_nodes(trial: TrialSpec, nodes: int) -> TrialSpec:
    """The trial spread over nodes."""
    wire = json.loads(json.dumps(trial.wire()))
    wire["point"].update(nodes=nodes, workersPerNode=trial.point.workers // nodes)
    return TrialSpec.model_validate(wire)


def end_started() -> None:
    """End every pod that was started and still runs."""
    for pod in STARTED:
        pod.process.terminate()
    for pod in STARTED:
        try:
            pod.process.wait(20)
        except subprocess.TimeoutExpired:
            pod.process.kill()
            pod.process.wait()
    STARTED.clear()
