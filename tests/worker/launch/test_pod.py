from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve_api.features.collectives.facts import ALLREDUCE
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.envelope import Envelope, digest, unseal
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.termination import read
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_worker.launch.pod import _termination_of
from scalecurve_worker.launch.pod_role import PodKind, PodRole
from tests.waiting import eventually
from tests.worker.pods import CORES, PodRun, end_started, on_nodes, start_pod, start_pods
from tests.worker.worker_ranks import SCRIPTS, make_trial, rank_environment

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(len(CORES) < 2, reason="two pods need a core each, this machine gives one"),
]


@pytest.fixture(autouse=True)
def none_is_left() -> Iterator[None]:
    """Pods of a test that failed are ended with it."""
    yield
    end_started()


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
    results = {"SCALECURVE_RESULTS": str(tmp_path / "claim"), "SCALECURVE_ATTEMPT": "2"}
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


@pytest.mark.parametrize("launch", [{"launcher": "processes"}, {"launcher": "torchrun"}, {"startsRanks": True}])
def test_what_the_second_pod_prints_becomes_the_record_of_both(tmp_path: Path, launch: dict[str, object]) -> None:
    """Megatron prints on its last rank, and the record goes through rank 0's log."""
    prints = Path(__file__).parents[2] / "local" / "programs" / "prints.py"
    command = [sys.executable, str(prints), "megatron", "--batch", "4", "--global", "8"]
    workload = {"program": "custom", "command": command, "instrument": "log", **launch}
    trial = on_nodes(make_trial(2, measure=QUIET, workload={**workload, "log": {"format": "megatron"}}), 2)
    pods = start_pods(tmp_path, trial, 2)
    assert ended(pods) == [0, 0], "\n".join(pods[0].log + pods[1].log)
    assert not any("iteration" in line for line in pods[0].log)
    assert any("| lm loss: " in line for line in pods[1].log), "its output passes through"
    envelope = received(pods[0])
    made = judged(trial, envelope)
    assert (made.record.phase, made.record.message) == (TrialPhase.succeeded, "")
    assert sorted(envelope.journals) == [1], "one clock, one journal"
    assert [at.pod for at in made.record.topology] == ["trial-0", "trial-1"]
    assert pods[0].termination.summary == made.record.summary is not None
    steps = trial.measure.windows * trial.measure.steps_per_window
    assert made.record.summary.samples == steps * 8


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
    pods = start_pods(tmp_path, trial, 2, SCALECURVE_CORES="")
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


@pytest.fixture
def answering() -> Iterator[int]:
    """A port of this machine that answers, as the workers' sshd would: mpirun needs none for ranks beside it."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


@pytest.mark.parametrize("fails", ["", "1"])
def test_a_launcher_of_mpi_brings_the_record_home(tmp_path: Path, answering: int, fails: str) -> None:
    if shutil.which("mpirun") is None and not Path(sys.executable).with_name("mpirun").exists():
        pytest.skip("no mpirun here")
    hosts = tmp_path / "hostfile"
    hosts.write_text("localhost slots=2\n")
    workload = {"program": "custom", "command": [sys.executable, str(SCRIPTS / "mpi_own.py")], "env": {"FAIL": fails}}
    trial = make_trial(2, workload=workload, measure=QUIET)
    pod = start_pod(
        tmp_path / "launcher",
        trial,
        K_MPI_JOB_ROLE="launcher",
        SCALECURVE_PODS="1",
        SCALECURVE_HOSTFILE=str(hosts),
        SCALECURVE_SSH_PORT=str(answering),
    )
    if fails:
        assert pod.end() != 0
        said = [(failure.rank, failure.message) for failure in pod.termination.failures]
        assert said == [(1, "RuntimeError: lost a link")]
        return
    assert pod.end() == 0, "\n".join(pod.log)
    envelope = received(pod)
    assert judged(trial, envelope).record.message == ""
    assert sorted(envelope.journals) == [0, 1]


BY_MPIRUN = {
    "mpi": {
        "program": "allreduce",
        "backend": "mpi",
        "allReduce": "ring",
        "sizes": {"minBytes": 64, "maxBytes": 4096, "factor": 64, "iterations": 5},
    },
    "gloo": {"program": "torch", "launcher": "mpirun", "backend": "gloo"},
}


@pytest.mark.parametrize("backend", BY_MPIRUN)
def test_a_launcher_of_mpi_starts_the_built_in_programs(tmp_path: Path, answering: int, backend: str) -> None:
    if shutil.which("mpirun") is None and not Path(sys.executable).with_name("mpirun").exists():
        pytest.skip("no mpirun here")
    hosts = tmp_path / "hostfile"
    hosts.write_text("localhost slots=2\n")
    trial = make_trial(2, workload=BY_MPIRUN[backend], measure=QUIET)
    pod = start_pod(
        tmp_path / "launcher",
        trial,
        K_MPI_JOB_ROLE="launcher",
        SCALECURVE_PODS="1",
        SCALECURVE_HOSTFILE=str(hosts),
        SCALECURVE_SSH_PORT=str(answering),
    )
    assert pod.end() == 0, "\n".join(pod.log)
    envelope = received(pod)
    record = judged(trial, envelope).record
    assert (record.message, record.backend) == ("", backend)
    assert [at.local_rank for at in record.topology] == [0, 1]
    assert len(ALLREDUCE.of(record)) == (2 if backend == "mpi" else 0)


def test_a_pod_that_is_told_to_end_ends_its_ranks_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
    trial = make_trial(2, workload={"program": "custom", "command": command})
    pod = start_pods(tmp_path, trial, 1, SCALECURVE_CORES="")[0]
    eventually(lambda: pod.log.count("up") == 2, "two ranks that are up", log=lambda: "\n".join(pod.log))
    pod.process.send_signal(signal.SIGTERM)
    assert pod.end() == 128 + signal.SIGTERM
    assert pod.termination.exit_codes == {"rank-0": -15, "rank-1": -15}


def test_one_rank_that_fails_ends_the_others_of_its_pod(tmp_path: Path) -> None:
    code = "import os, sys, time; sys.exit(7) if os.environ['RANK'] == '1' else time.sleep(600)"
    trial = make_trial(2, workload={"program": "custom", "command": [sys.executable, "-c", code]})
    pod = start_pods(tmp_path, trial, 1, SCALECURVE_CORES="")[0]
    assert pod.end() in (7, 128 + signal.SIGTERM)
    assert pod.termination.exit_codes == {"rank-0": -15, "rank-1": 7}


def test_a_pod_without_a_place_says_so(tmp_path: Path) -> None:
    pod = start_pod(tmp_path / "pod", make_trial(2), SCALECURVE_PODS="2")
    assert pod.end() == 1
    (failure,) = pod.termination.failures
    assert (failure.reason, failure.message[:34]) == ("BadWorkload", "cannot tell which of 2 pods this is"[:34])


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def started(tmp_path: Path, module: str, workers: int, nodes: int, **environment: str) -> list[str]:
    """What one process said that must not have begun, or that went on alone."""
    trial = on_nodes(make_trial(workers), nodes)
    message = tmp_path / "termination"
    done = subprocess.run(
        [sys.executable, "-m", module],
        env=rank_environment(tmp_path / "out", trial, SCALECURVE_TERMINATION_LOG=str(message), **environment),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    said = read(message.read_text()) if message.exists() else None
    return [*done.stderr.splitlines(), *(f"{each.reason}: {each.message}" for each in (said.failures if said else []))]


@pytest.mark.processes
def test_a_launcher_without_host_file_leaves_its_reason(tmp_path: Path) -> None:
    where = {"K_MPI_JOB_ROLE": "launcher", "SCALECURVE_PODS": "2", "SCALECURVE_HOSTFILE": str(tmp_path / "none")}
    line, reason = started(tmp_path, "scalecurve_worker.launch.pod", 2, 2, **where)
    assert line.startswith(f"scalecurve: no host file {tmp_path}/none")
    assert reason.startswith("StartFailed: no host file")


@pytest.mark.processes
def test_a_first_pod_whose_port_is_taken_leaves_its_reason(tmp_path: Path, taken: int) -> None:
    where = {
        "SCALECURVE_PODS": "2",
        "JOB_COMPLETION_INDEX": "0",
        "SCALECURVE_COORDINATOR": f"127.0.0.1:{taken}",
    }
    line, reason = started(tmp_path, "scalecurve_worker.launch.pod", 2, 2, **where)
    assert line.startswith(f"scalecurve: port {taken}, where the workers meet, is in use")
    assert reason.startswith("StartFailed: port")


def test_a_pod_says_what_its_script_forgot_to_call(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('epoch 1')")
    workload = {"program": "custom", "command": [sys.executable, "train.py"], "workingDir": str(code), "model": "mlp"}
    pods = start_pods(tmp_path, make_trial(1, workload={**workload, "instrument": "sdk"}), 1)
    assert ended(pods) == [0]
    assert pods[0].termination.missing == "train.py never called attach() on any rank"


@pytest.mark.parametrize(
    ("strategy", "kind", "task", "says"),
    [
        ("parameter-server", PodKind.auxiliary, "chief", True),
        ("parameter-server", PodKind.auxiliary, "server-0", False),
        ("parameter-server", PodKind.workers, "", False),
        ("multi-worker-mirrored", PodKind.workers, "", True),
    ],
)
def test_the_pod_that_keeps_the_record_says_why_there_is_none(
    strategy: str, kind: PodKind, task: str, says: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = make_trial(2, workload={"program": "tensorflow", "strategy": strategy, "model": "mlp"})
    role = PodRole(kind, 1, 0, 2, "127.0.0.1", 1, task)
    assert _termination_of(trial, 1, [], [], [1], role).sha256 is None
    assert bool(capsys.readouterr().err) == says
