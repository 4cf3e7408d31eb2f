from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pods import CORES, PodRun, on_nodes, start_pods
from worker_ranks import SCRIPTS, make_trial

from scalebench_api.record.assemble import assemble
from scalebench_api.record.envelope import Envelope, digest, unframe, unseal
from scalebench_api.record.outcome import Outcome
from scalebench_api.trial import TrialPhase, TrialSpec

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(len(CORES) < 2, reason="two pods need a core each, this machine gives one"),
]
QUIET = {"maxForeignLoad": 1.0}


def ended(pods: list[PodRun]) -> list[int]:
    return [pod.end() for pod in pods]


def received(pod: PodRun) -> Envelope:
    payload = unframe(pod.log)
    said = pod.termination
    assert (said.sha256, said.bytes) == (digest(payload), len(payload))
    return unseal(payload)


def judged(trial: TrialSpec, envelope: Envelope):  # type: ignore[no-untyped-def]
    outcome = Outcome(engine="kubernetes", attempt=envelope.attempt)
    return assemble(trial, envelope.ranks, envelope.journals, outcome, left_out=envelope.left_out)


def test_two_pods_leave_one_record(tmp_path: Path) -> None:
    trial = on_nodes(make_trial(2, measure=QUIET), 2)
    results = {"SCALEBENCH_RESULTS": str(tmp_path / "claim"), "SCALEBENCH_ATTEMPT": "2"}
    pods = start_pods(tmp_path, trial, 2, **results)
    assert ended(pods) == [0, 0], "\n".join(pods[0].log + pods[1].log)
    envelope = received(pods[0])
    assert (envelope.trial, envelope.attempt, envelope.left_out) == (trial.name, 2, ())
    made = judged(trial, envelope)
    assert (made.record.phase, made.record.message) == (TrialPhase.succeeded, "")
    assert [(at.rank, at.pod, at.node) for at in made.record.topology] == [
        (0, "trial-0", "node-0"),
        (1, "trial-1", "node-1"),
    ]
    assert set(made.tables) == {"steps.parquet"}
    assert pods[0].termination.summary == made.record.summary is not None
    second = pods[1].termination
    assert (second.trial, second.attempt, second.sha256, second.failures) == (trial.name, 2, None, [])
    stored = tmp_path / "claim" / f"{trial.name}-a2"
    assert sorted(path.name for path in stored.iterdir()) == [
        "rank-0.json",
        "rank-0.steps",
        "rank-1.json",
        "rank-1.steps",
        "trial.json",
    ]
    assert (stored / "rank-1.steps").read_bytes() == envelope.journals[1]


def test_a_rank_that_dies_in_the_second_pod_is_heard_there(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "dying.py")]
    trial = make_trial(2, workload={"program": "custom", "command": command, "launcher": "torchrun"})
    pods = start_pods(tmp_path, on_nodes(trial, 2), 2)
    assert pods[1].end() == 1
    said = pods[1].termination
    assert [(failure.rank, failure.reason, failure.message) for failure in said.failures] == [
        (1, "RankFailed", "RuntimeError: bit flipped")
    ]
    assert said.exit_codes == {"pod": 1}
    pods[0].process.terminate()
    assert pods[0].end() != 0
    assert pods[0].termination.sha256 is None


def test_a_command_of_ones_own_over_two_pods(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "own_group.py")]
    workload = {"program": "custom", "command": command, "env": {"OWN": "a b"}}
    trial = on_nodes(make_trial(4, workload=workload, measure=QUIET), 2)
    pods = start_pods(tmp_path, trial, 2, SCALEBENCH_CORES="")
    assert ended(pods) == [0, 0], "\n".join(pods[0].log + pods[1].log)
    envelope = received(pods[0])
    assert [(r, record.topology.pod, record.topology.local_rank) for r, record in envelope.ranks.items()] == [
        (0, "trial-0", 0),
        (1, "trial-0", 1),
        (2, "trial-1", 0),
        (3, "trial-1", 1),
    ]
    assert {record.world for record in envelope.ranks.values()} == {4}
    # What ranks print goes through as it comes, and does not harm the record.
    assert sum(line == "rank 2 says a b" for line in pods[1].log) == 1
