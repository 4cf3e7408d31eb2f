"""Pods of a TFJob as process groups of this machine: they find one another, and end by themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.envelope import unseal
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.worker.features.tensorflow.tensorflow_ranks import MINUTES_S, needs_tensorflow, tf_trial
from tests.worker.pods import CORES, PodRun, end_started, on_nodes, start_pod
from tests.worker.ports import free_port

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(900),
    needs_tensorflow,
    pytest.mark.skipif(len(CORES) < 2, reason="two pods need a core each, this machine gives one"),
]


@pytest.fixture(autouse=True)
def none_is_left() -> Iterator[None]:
    """Pods of a test that failed are ended with it."""
    yield
    end_started()


def start_job(folder: Path, trial: TrialSpec, tasks: list[tuple[str, int]]) -> dict[str, PodRun]:
    """One pod for each task, with the variables that training-operator and our operator set."""
    port = free_port()
    found = {}
    workers = sum(kind == "worker" for kind, _ in tasks)
    for kind, index in tasks:
        cluster = {kind: [f"job-{kind}-{i}:2222" for i in range(n)] for kind, n in (("worker", workers),)}
        name = f"{kind}-{index}"
        found[name] = start_pod(
            folder / name,
            trial,
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}),
            SCALECURVE_PODS=str(workers),
            SCALECURVE_COORDINATOR=f"127.0.0.1:{port}",
            SCALECURVE_CORES=str(CORES[index % len(CORES)]),
            POD_NAME=f"job-{name}",
            NODE_NAME=f"node-{index}",
        )
    return found


def record_of(trial: TrialSpec, pod: PodRun):  # type: ignore[no-untyped-def]
    envelope = unseal(unframe(pod.log))
    return assemble(trial, envelope.ranks, envelope.journals, Outcome(engine="kubernetes", attempt=1)).record


def test_workers_of_a_tfjob_train_one_model(tmp_path: Path) -> None:
    trial = on_nodes(tf_trial(2, "multi-worker-mirrored"), 2)
    pods = start_job(tmp_path, trial, [("worker", 0), ("worker", 1)])
    codes = [pod.end(MINUTES_S) for pod in pods.values()]
    assert codes == [0, 0], "\n".join(line for pod in pods.values() for line in pod.log)
    record = record_of(trial, pods["worker-0"])
    assert (record.phase, record.message) == (TrialPhase.succeeded, "")
    assert [(at.pod, at.node) for at in record.topology] == [("job-worker-0", "node-0"), ("job-worker-1", "node-1")]
    assert pods["worker-0"].termination.summary == record.summary
    assert pods["worker-1"].termination.sha256 is None


def test_the_chief_of_a_tfjob_has_the_record_and_all_pods_end(tmp_path: Path) -> None:
    trial = on_nodes(tf_trial(2, "parameter-server"), 2)
    pods = start_job(tmp_path, trial, [("chief", 0), ("ps", 0), ("worker", 0), ("worker", 1)])
    codes = [pod.end(MINUTES_S) for pod in pods.values()]
    assert codes == [0, 0, 0, 0], "\n".join(line for pod in pods.values() for line in pod.log)
    record = record_of(trial, pods["chief-0"])
    assert (record.phase, record.message) == (TrialPhase.succeeded, "")
    assert [(at.pod, at.node) for at in record.topology] == [("job-worker-0", "node-0"), ("job-worker-1", "node-1")]
    assert pods["chief-0"].termination.summary == record.summary is not None
    assert not any("scalecurve: " in line for name in ("worker-0", "ps-0") for line in pods[name].log)
