"""The engine with real processes: what ends well, what does not, and why it says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import scalecurve_local
from scalecurve_local.execution import running_trial as supervise
from scalecurve_local.supervision.supervisor import descendants
from tests.waiting import PATIENCE_S, eventually

from .conftest import Lab, living, none_left

pytestmark = pytest.mark.processes
CORES = len(os.sched_getaffinity(0))
ONE: dict[str, Any] = {"scaling": {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}}}
TWO: dict[str, Any] = {"scaling": {"modes": ["weak"], "workers": [2], "batch": {"perWorker": 4}}}
NewLab = Callable[[Path], Lab]
T1, T2 = "weak-1-1x1-r1", "weak-2-1x2-r1"


def test_runs_every_trial_of_a_plan(lab: Lab) -> None:
    lab.write()
    seen: list[scalecurve_local.RunProgress] = []
    result = lab.run(report=seen.append)
    assert result.exit_code == 0
    assert lab.published() == [T1, T2]
    assert sorted(entry.name for entry in lab.bundle.iterdir()) == ["experiment.yaml", "ledger.jsonl", "trials"]
    assert (lab.bundle / "experiment.yaml").read_text() == lab.file.read_text()
    record = lab.record(T2)
    assert record["phase"] == "Succeeded"
    assert record["exitCodes"] == {"0": 0, "1": 0}
    cores = [place["cores"] for place in record["topology"]]
    assert len(set(map(tuple, cores))) == 2
    assert cores[0] == lab.record(T1)["topology"][0]["cores"], "one worker runs where the first of two does"
    assert next(entry["phase"] for entry in record["timeline"]) == "Starting"
    assert (lab.bundle / "trials" / T2 / "logs" / "rank-1.log").read_text() == "light: rank 1 of 2\n"
    assert not Path(record["options"]["tmp"]).exists(), "the trial's temporary folder is removed"
    assert seen[-1].done == seen[-1].total == 2
    assert "each worker has" in " ".join(result.notes)


def test_a_rank_that_exits_with_an_error_ends_its_trial_at_once(lab: Lab) -> None:
    lab.write("exit:1:3", "hang:0", **TWO)
    result = lab.run()
    record = lab.record(T2)
    assert (result.exit_code, record["phase"], record["reason"]) == (1, "Failed", "RankFailed")
    assert record["message"] == "rank 1 exited with code 3: light: about to exit"
    assert (record["exitCodes"]["1"], record["exitCodes"]["0"]) == (3, -15), "the other was sent a stop in its sleep"
    assert record["logTail"]["0"][0] == "light: rank 0 of 2"
    assert record["logTail"]["1"][-1] == "light: about to exit"


def test_a_rank_that_has_to_be_killed_is_not_the_reason(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "GRACE_S", 0)
    lab.write("stubborn", "exit:1:3", "hang:0", **TWO)
    lab.run()
    record = lab.record(T2)
    assert (record["reason"], record["message"]) == ("RankFailed", "rank 1 exited with code 3: light: about to exit")
    assert record["exitCodes"]["1"] == 3
    # A rank that isn't stubborn yet takes the stop.
    assert record["exitCodes"]["0"] in (-9, -15)


def test_a_rank_that_is_killed_is_named_with_the_signal(lab: Lab) -> None:
    lab.write("kill:1:9", "hang:0", **TWO)
    lab.run()
    record = lab.record(T2)
    assert (record["phase"], record["reason"]) == ("Failed", "RankKilled")
    assert record["message"] == "rank 1 was ended by SIGKILL"
    assert record["exitCodes"]["1"] == -9


def test_a_rank_that_runs_out_of_memory_says_so(lab: Lab) -> None:
    lab.write("memory:0", **ONE)
    lab.run()
    record = lab.record(T1)
    assert (record["phase"], record["reason"]) == ("Failed", "OutOfMemory")
    assert record["message"] == "rank 0: MemoryError: no more"


def test_batches_rise_until_memory_is_full(lab: Lab) -> None:
    batch = {"ladder": {"from": 4, "factor": 4}}
    scaling = {"modes": ["weak"], "workers": [1], "batch": batch}
    lab.write("memory:0:20", scaling=scaling, failurePolicy={"retries": 2, "maxFailedTrials": 0})
    result = lab.run()
    assert (result.exit_code, result.status.message) == (0, "3 of 3 trials done, 1 Full")
    ended = {record.trial.point.batch_per_worker: (record.phase, record.attempt) for record in result.records.values()}
    assert ended == {4: ("Succeeded", 1), 16: ("Succeeded", 1), 64: ("Full", 1)}
    assert lab.run(resume=True).exit_code == 0
    assert len(lab.published()) == 3


def test_what_a_failing_rank_wrote_is_the_message(lab: Lab) -> None:
    lab.write("say:1:the loader gave up", "hang:0", **TWO)
    lab.run()
    assert lab.record(T2)["message"] == "rank 1: the loader gave up"


@pytest.mark.parametrize("manners", ["hang:1", "stubborn"])
def test_a_hang_ends_at_the_deadline(lab: Lab, manners: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the deadline; one that the machine is quick enough for meets the ranks in their hang."""
    monkeypatch.setattr(supervise, "GRACE_S", 0.3)
    for deadline in (1, 4, 16, 64):
        lab.bundle = lab.folder / f"bundle-{deadline}"
        lab.write(manners, "hang:1", deadlineSeconds=deadline, **TWO)
        lab.run()
        record = lab.record(T2)
        assert (record["phase"], record["reason"]) == ("Failed", "DeadlineExceeded")
        assert f"deadlineSeconds, {deadline}: rank 0 after" in record["message"]
        if "rank 1 after 13 steps" in record["message"]:
            return
    pytest.fail(f"not in their hang: {record['message']}")


def test_a_double_forked_daemon_does_not_outlive_its_trial(lab: Lab) -> None:
    lab.write(f"daemon:{lab.folder}/daemon", **ONE)
    lab.run()
    pid = int((lab.folder / "daemon").read_text())
    assert not living(pid)
    assert lab.record(T1)["phase"] == "Succeeded"


def test_a_record_that_is_none_fails_the_trial_and_names_the_file(lab: Lab) -> None:
    lab.write("junk:1", **TWO)
    lab.run()
    record = lab.record(T2)
    assert (record["phase"], record["reason"]) == ("Failed", "BadWorkload")
    assert record["message"].startswith("rank 1: rank-1.json is not a rank record: ")


def test_a_program_that_records_nothing_is_invalid(lab: Lab) -> None:
    lab.write(workload={"command": ["true"]}, **ONE)
    lab.run()
    record = lab.record(T1)
    assert (record["phase"], record["reason"]) == ("Invalid", "RecordsMissing")


def test_a_command_that_is_not_there_is_a_bad_workload(lab: Lab) -> None:
    lab.write(workload={"command": ["no-such-program"]}, **ONE)
    lab.run()
    record = lab.record(T1)
    assert (record["phase"], record["reason"]) == ("Failed", "BadWorkload")
    assert "no-such-program" in record["message"]


def test_a_failed_trial_is_retried_as_the_policy_says(lab: Lab) -> None:
    lab.write(f"once:{lab.folder}/flag:exit:0:1", failurePolicy={"retries": 1}, **ONE)
    assert lab.run().exit_code == 0
    assert lab.record(T1)["attempt"] == 2


def test_too_many_failures_end_the_experiment_and_a_resume_keeps_to_it(lab: Lab) -> None:
    lab.write("exit:0:1", failurePolicy={"maxFailedTrials": 0, "retries": 1})
    result = lab.run()
    assert (result.exit_code, result.status.phase) == (1, "Failed")
    assert len(lab.published()) == 1
    again = lab.run(resume=True)
    assert (again.status.phase, len(lab.published())) == ("Failed", 1)
    assert len([note for note in lab.notes() if note["rank"] == 0]) == 2


def test_more_workers_than_cores_are_refused_with_the_counts(lab: Lab) -> None:
    lab.write(scaling={"modes": ["weak"], "workers": [1, CORES + 1], "batch": {"perWorker": 4}})
    with pytest.raises(
        scalecurve_local.UnavailableError, match=f"{CORES + 1} workers .* need {CORES + 1} cores, and {CORES}"
    ):
        lab.run()
    assert not lab.bundle.exists()


def test_oversubscribed_trials_run_and_come_out_invalid(lab: Lab) -> None:
    lab.write(scaling={"modes": ["weak"], "workers": [1, CORES + 1], "batch": {"perWorker": 4}})
    assert lab.run(oversubscribe=True).exit_code == 1
    assert lab.record(T1)["phase"] == "Succeeded"
    record = lab.record(f"weak-{CORES + 1}-1x{CORES + 1}-r1")
    assert (record["phase"], record["reason"]) == ("Invalid", "Oversubscribed")


def test_the_users_environment_wins_and_the_rest_is_the_engines(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("OMP_NUM_THREADS", "99")
    lab.write(workload={"env": {"LIGHT": "on", "MASTER_ADDR": "localhost"}}, **TWO)
    lab.run()
    record = lab.record(T2)
    cores = str(len(record["topology"][0]["cores"]))
    assert record["environment"] == {"OMP_NUM_THREADS": cores, "MASTER_ADDR": "localhost", "LIGHT": "on"}


def test_a_huge_log_is_kept_in_part_and_says_so(lab: Lab) -> None:
    lab.write("print:6000000", **ONE)
    lab.run()
    log = (lab.bundle / "trials" / T1 / "logs" / "rank-0.log").read_bytes()
    assert 4_000_000 < len(log) < 4_500_000
    assert b" bytes omitted here]" in log


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_launchers_run_ranks_and_their_failures_are_understood(lab: Lab, new_lab: NewLab, launcher: str) -> None:
    lab.write(workload={"launcher": launcher}, **TWO)
    assert lab.run().exit_code == 0
    assert lab.record(T2)["exitCodes"] == {"0": 0, "1": 0, "launcher": 0}
    worse = new_lab(lab.folder / "worse")
    worse.write("exit:1:3", "hang:0", workload={"launcher": launcher}, **TWO)
    worse.run()
    record = worse.record(T2)
    assert (record["phase"], record["reason"]) == ("Failed", "RankFailed")
    assert record["message"] == "rank 1 exited with code 3: light: about to exit"
    assert record["logTail"]["launcher"]


def test_a_killed_torchrun_takes_its_ranks_with_it(lab: Lab) -> None:
    lab.write("hang:0", "hang:1", workload={"launcher": "torchrun"}, **TWO)
    engine = lab.begin()

    def launcher() -> int | None:
        return next((pid for pid in descendants(engine.pid) if "torch.distributed.run" in words(pid)), None)

    eventually(lambda: list(lab.bundle.glob(".work/*/attempt-1/rank-1.ready.json")), "rank 1")
    killed = eventually(launcher, "torchrun")
    os.kill(killed, signal.SIGKILL)
    engine.communicate(timeout=PATIENCE_S)
    record = lab.record(T2)
    assert (record["phase"], record["reason"]) == ("Failed", "RankKilled")
    assert record["message"] == "the launcher was ended by SIGKILL"


def words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def test_a_killed_supervisor_leaves_nothing_and_fails_the_trial(lab: Lab) -> None:
    lab.write(f"daemon:{lab.folder}/daemon", "hang:0", **ONE)
    engine = lab.begin()
    eventually(lambda: (lab.folder / "daemon").exists() and (lab.folder / "daemon").read_text(), "the daemon")
    (supervisor,) = (pid for pid in descendants(engine.pid) if "supervisor.py" in words(pid))
    os.kill(supervisor, signal.SIGKILL)
    engine.communicate(timeout=PATIENCE_S)
    record = lab.record(T1)
    assert (record["phase"], record["reason"]) == ("Failed", "RankKilled")
    assert record["message"] == "the supervisor was killed by signal 9"


def test_runs_beside_each_other_share_no_port_and_no_folder(tmp_path: Path, new_lab: NewLab) -> None:
    labs = [new_lab(tmp_path / name) for name in ("a", "b", "c")]
    for lab in labs:
        lab.write(**TWO)
    engines = [lab.begin(environment={"SCALECURVE_LOCKS": str(lab.folder)}) for lab in labs]
    assert [engine.wait(PATIENCE_S) for engine in engines] == [0, 0, 0]
    for engine in engines:
        engine.communicate()
    options = [lab.record(T2)["options"] for lab in labs]
    assert len({option["port"] for option in options}) == 3
    assert len({option["tmp"] for option in options}) == 3


def test_a_second_run_on_the_same_devices_waits_or_is_refused(lab: Lab, new_lab: NewLab) -> None:
    hold = lab.folder / "hold"
    hold.touch()
    lab.write(f"hold:{hold}", **ONE)
    first = lab.begin()
    eventually(lambda: list(lab.bundle.glob(".work/*/attempt-1/rank-0.ready.json")), "rank 0")
    other = new_lab(lab.folder / "other")
    other.write(**ONE)
    code, _, said = other.drive("refuse")
    assert code == 3
    assert f"process {first.pid}, bundle {lab.bundle}" in said
    assert not other.bundle.exists()
    second = other.begin()
    assert second.stderr is not None
    assert any("waiting" in line for line in second.stderr)
    hold.unlink()
    out, _ = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, json.loads(out)[T1][0]) == (0, "Succeeded")
    assert first.wait(PATIENCE_S) == 0
    first.communicate()
    began = other.notes()[0]["at"]
    ended = lab.notes()[-1]["at"]
    assert began > ended


def test_two_engines_never_share_a_bundle(lab: Lab, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    lab.write(f"hold:{hold}", **ONE)
    first = lab.begin()
    eventually(lambda: list(lab.bundle.glob(".work/*/attempt-1/rank-0.ready.json")), "rank 0")
    code, _, said = lab.drive("resume", environment={"SCALECURVE_LOCKS": str(tmp_path)})
    assert code == 3
    assert "this bundle is in use by another run" in said
    hold.unlink()
    assert first.wait(PATIENCE_S) == 0
    first.communicate()


def test_a_full_disk_gives_a_clear_message_and_a_resume_goes_on(lab: Lab) -> None:
    lab.write(**TWO)
    limited = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, str(lab_drive()), lab.file, lab.bundle],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert limited.returncode == 3
    assert "cannot write" in limited.stderr
    assert "File too large" in limited.stderr
    assert "--resume" in limited.stderr
    assert "Traceback" not in limited.stderr
    none_left(lab.folder)
    assert lab.run(resume=True).exit_code == 0


def lab_drive() -> Path:
    return Path(__file__).parent / "programs" / "drive.py"
