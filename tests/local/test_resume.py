"""Killed at any moment and resumed: nothing lost, nothing run twice, nothing left running."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import scalecurve_local
from scalecurve.bundle.open import open_bundle
from scalecurve_local.bundle import BundleFolder
from scalecurve_local.supervision.supervisor import descendants
from tests.waiting import PATIENCE_S, consistently, eventually

from .conftest import Lab, living, none_left

pytestmark = pytest.mark.processes
FOUR: dict[str, Any] = {"measure": {"warmupSteps": 3, "windows": 2, "stepsPerWindow": 10, "repetitions": 2}}
ONE: dict[str, Any] = {"scaling": {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}}}
T1 = "weak-1-1x1-r1"


def none_lost_none_twice(lab: Lab, total: int) -> None:
    """Every planned trial has its record, of an execution after which the trial was never begun again."""
    assert len(lab.published()) == total
    notes = [note for note in lab.notes() if note["rank"] == 0]
    ended = Counter(note["trial"] for note in notes if note["event"] == "end")
    assert all(count == 1 for count in ended.values()), f"run twice: {ended}"
    for trial in lab.published():
        record = lab.record(trial)
        assert record["phase"] == "Succeeded"
        begun = [note["run"] for note in notes if note["trial"] == trial and note["event"] == "begin"]
        assert begun[-1] == record["options"]["run"], "the last execution begun is the one that was kept"
    claims = open_bundle(lab.bundle).claims
    assert {claim.what for claim in claims} >= {"ledger", "experiment", "records", "attempts", "consistency"}
    assert all(claim.holds for claim in claims), claims


def test_interrupted_at_any_event_and_resumed(lab: Lab) -> None:
    """At first before anything is set up, then two events later each time, until a run gets through."""
    lab.write(step_ms=4, **FOUR)
    options: list[str] = []
    ended: list[int] = []
    for turn, number in enumerate(itertools.cycle([signal.SIGTERM, signal.SIGINT])):
        engine = lab.begin_and_reach(2 * turn, *options)
        engine.send_signal(number)
        ended.append(engine.wait(PATIENCE_S))
        assert ended[-1] in (0, 130, -number), "the last: it came before anything was set up"
        engine.communicate()
        none_left(lab.bundle)
        options = ["resume"]
        if ended[-1] == 0:
            break
    assert 130 in ended
    none_lost_none_twice(lab, 4)


def test_killed_at_any_event_and_resumed(lab: Lab) -> None:
    lab.write(step_ms=4, **FOUR)
    options: list[str] = []
    for further in range(6):
        engine = lab.begin_and_reach(further, *options)
        engine.kill()
        engine.communicate()
        options = ["resume"]
    assert lab.run(resume=True).exit_code == 0
    none_lost_none_twice(lab, 4)
    assert sorted(entry.name for entry in lab.bundle.iterdir()) == ["experiment.yaml", "ledger.jsonl", "trials"]
    none_left(lab.bundle)


def test_engine_and_supervisor_killed_at_once_leave_orphans_to_the_next_run(lab: Lab) -> None:
    lab.write(f"daemon:{lab.folder}/daemon", f"once:{lab.folder}/flag:hang:0", **ONE)
    engine = lab.begin()
    eventually(lambda: (lab.folder / "daemon").exists() and (lab.folder / "flag").exists(), "the daemon and the hang")
    daemon = int(eventually((lab.folder / "daemon").read_text, "the daemon's number"))
    (supervisor, *_) = (pid for pid in descendants(engine.pid) if "supervisor.py" in cmdline(pid))
    os.kill(engine.pid, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    engine.kill()
    engine.communicate()
    # That it lives on can't be asked here: any engine that begins on this machine ends it, as this one does.
    assert lab.run(resume=True).exit_code == 0
    eventually(lambda: not living(daemon), "the end of the daemon, by this run or another on this machine")
    none_lost_none_twice(lab, 1)


def test_orphans_that_were_ended_are_reported(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_local.execution.this_machine.end_orphans", lambda: 3)
    lab.write(**ONE)
    messages: list[str] = []
    lab.run(report=lambda progress: messages.append(progress.message))
    assert "ended 3 processes left by an earlier run" in messages


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_second_interrupt_kills_at_once(lab: Lab) -> None:
    lab.write("stubborn", "hang:0", **ONE)
    engine = lab.begin(environment={"LAB_GRACE_S": "600"})
    logs = ".work/*/attempt-1/logs/rank-0.log"
    eventually(lambda: "about to hang" in "".join(path.read_text() for path in lab.bundle.glob(logs)), "the hang")
    engine.send_signal(signal.SIGINT)
    # Two signals that come before the first is seen are one.
    assert engine.stderr is not None
    assert any("stopping" in line for line in engine.stderr)
    consistently(lambda: engine.poll() is None, "a stubborn rank is given its grace", 0.3)
    engine.send_signal(signal.SIGINT)
    assert engine.wait(PATIENCE_S) == 130, "and not all of its grace"
    engine.communicate()


def test_a_run_whose_processes_had_ended_is_collected_not_repeated(lab: Lab) -> None:
    """As after a power cut in the moment between the ranks' end and the supervisor's report."""
    linger = lab.folder / "linger"
    linger.touch()
    lab.write(f"linger:{linger}", **ONE)
    lab.killed(lambda: len(lab.notes()) == 2)
    linger.unlink()
    attempt = lab.bundle / ".work" / T1 / "attempt-1"
    assert (attempt / "rank-0.json").exists()
    for report in attempt.glob("exit.json"):
        report.unlink()
    assert lab.run(resume=True).exit_code == 0
    none_lost_none_twice(lab, 1)
    assert len(lab.notes()) == 2
    assert lab.record(T1)["attempt"] == 1


def test_an_interrupted_attempt_is_run_anew_under_the_next_number(lab: Lab) -> None:
    lab.write(f"once:{lab.folder}/flag:hang:0", **ONE)
    engine = lab.begin()
    eventually((lab.folder / "flag").exists, "the hang")
    engine.send_signal(signal.SIGINT)
    assert engine.wait(PATIENCE_S) == 130
    engine.communicate()
    assert lab.published() == []
    assert lab.run(resume=True).exit_code == 0
    assert lab.record(T1)["attempt"] == 2


def test_a_machine_that_shuts_down_fails_no_trial(lab: Lab) -> None:
    """Everybody gets SIGTERM at once: the ranks' end is not the trial's own."""
    lab.write(f"once:{lab.folder}/flag:hang:0", **ONE)
    engine = lab.begin()
    eventually((lab.folder / "flag").exists, "the hang")
    for pid in [*reversed(descendants(engine.pid)), engine.pid]:
        os.kill(pid, signal.SIGTERM)
    assert engine.wait(PATIENCE_S) == 130
    engine.communicate()
    assert lab.run(resume=True).exit_code == 0
    assert lab.record(T1)["attempt"] == 2


def test_a_retry_that_is_interrupted_keeps_the_failure_before_it(lab: Lab) -> None:
    flags = [f"once:{lab.folder}/one:exit:0:1", f"once:{lab.folder}/two:hang:0"]
    lab.write(*flags, failurePolicy={"retries": 1}, **ONE)
    engine = lab.begin()
    eventually((lab.folder / "two").exists, "the hang of the retry")
    engine.kill()
    engine.communicate()
    assert lab.published() == []
    assert lab.run(resume=True).exit_code == 0
    assert lab.record(T1)["attempt"] == 3
    assert len([note for note in lab.notes() if note["event"] == "begin"]) == 3


def test_resume_of_a_finished_run_does_nothing(lab: Lab) -> None:
    lab.write()
    lab.run()
    before = {path: path.stat().st_mtime_ns for path in lab.bundle.rglob("*") if path.is_file()}
    assert lab.run(resume=True).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in lab.bundle.rglob("*") if path.is_file()} == before


def test_resume_where_nothing_is_yet_starts(lab: Lab) -> None:
    lab.write(**ONE)
    assert lab.run(resume=True).exit_code == 0


def test_a_kill_while_the_experiment_is_written_does_not_block_resume(lab: Lab) -> None:
    lab.write(**ONE)
    lab.bundle.mkdir()
    (lab.bundle / ".experiment.yaml.1.2.tmp").touch()
    assert lab.run(resume=True).exit_code == 0


def test_a_kill_while_the_experiment_was_written_leaves_nothing_in_the_way(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, bundle = lab.write(**ONE), BundleFolder(lab.bundle)
    bundle.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", Mock(side_effect=KeyboardInterrupt))
        patch.setattr(os, "unlink", Mock())
        with pytest.raises(KeyboardInterrupt):
            bundle.begin(experiment, lab.file.read_text(), resume=False)
    assert [path.suffix for path in lab.bundle.iterdir() if path.is_file()] == [".tmp"]
    assert lab.run(resume=True).exit_code == 0


def test_a_bundle_that_holds_something_is_refused_without_resume(lab: Lab) -> None:
    lab.write(**ONE)
    lab.run()
    with pytest.raises(scalecurve_local.InputError, match=r"already holds an experiment; continue it with --resume"):
        lab.run()
    (lab.folder / "full").mkdir()
    (lab.folder / "full" / "thesis.tex").touch()
    lab.bundle = lab.folder / "full"
    for resume in (False, True):
        with pytest.raises(scalecurve_local.InputError, match=r"thesis\.tex"):
            lab.run(resume=resume)
    lab.bundle = lab.file
    with pytest.raises(scalecurve_local.InputError, match="is a file"):
        lab.run(resume=True)


def test_a_bundle_of_another_experiment_is_refused_by_the_field(lab: Lab) -> None:
    lab.write(**ONE)
    lab.run()
    lab.write(deadlineSeconds=7, **ONE)
    with pytest.raises(
        scalecurve_local.InputError, match=r"another experiment: spec\.deadlineSeconds is 3600 there and 7"
    ):
        lab.run(resume=True)
    lab.write(suspend=True, **ONE)
    assert lab.run(resume=True).exit_code == 0, "the switches may change"


def test_a_damaged_bundle_is_refused_and_named(lab: Lab) -> None:
    lab.write(**ONE)
    lab.run()
    path = lab.bundle / "trials" / T1 / "trial.json"
    whole = path.read_text()
    for text, said in (
        (whole[:100], "is not a trial record"),
        (whole.replace('"attempt": 1', '"attempt": 4'), "does not match its digest"),
    ):
        path.write_text(text)
        with pytest.raises(scalecurve_local.InputError, match=said):
            lab.run(resume=True)
    path.write_text(whole)
    (lab.bundle / "trials" / T1 / "steps.parquet").write_bytes(b"PAR1")
    with pytest.raises(scalecurve_local.InputError, match=r"steps\.parquet: does not match its checksum"):
        lab.run(resume=True)
    (lab.bundle / "experiment.yaml").write_text("spec: [")
    with pytest.raises(scalecurve_local.InputError, match=r"cannot resume: .*experiment\.yaml"):
        lab.run(resume=True)


@pytest.mark.parametrize(("switch", "phase"), [("suspend", "Suspended"), ("cancel", "Cancelled")])
def test_a_suspended_or_cancelled_experiment_starts_nothing(lab: Lab, switch: str, phase: str) -> None:
    lab.write(**{switch: True}, **ONE)
    result = lab.run()
    assert (result.status.phase, lab.published()) == (phase, [])
    lab.write(**ONE)
    assert lab.run(resume=True).exit_code == 0


def test_a_bundle_that_cannot_be_made_gives_a_clear_message(lab: Lab) -> None:
    lab.write(**ONE)
    lab.bundle = Path("/proc/self/no-such-folder")
    with pytest.raises(scalecurve_local.StorageError, match="/proc/self/no-such-folder: this user may not write to"):
        lab.run()


def test_work_of_another_user_is_put_aside(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a bundle that was copied with its owners; it ended with "fix the permissions"."""
    lab.write(f"once:{lab.folder}/flag:hang:0", **ONE)
    lab.killed((lab.folder / "flag").exists)
    work, may = lab.bundle / ".work", os.access
    theirs = work.stat().st_ino

    def not_mine(path: os.PathLike[str] | str, mode: int, **options: Any) -> bool:
        return may(path, mode, **options) and not (Path(path) == work and work.stat().st_ino == theirs)

    monkeypatch.setattr(os, "access", not_mine)
    result = lab.run(resume=True)
    assert result.exit_code == 0
    aside = lab.bundle / f".work-of-{os.getuid()}"
    assert [line for line in result.damage if f"it was put aside as {aside.name}" in line] == list(result.damage)
    assert (aside / T1 / "attempt-1" / "order.json").exists(), "nothing of it is lost"
    assert lab.record(T1)["attempt"] == 2, "its number stays used"
    assert not work.exists()
