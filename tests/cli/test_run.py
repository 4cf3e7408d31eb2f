"""``scalecurve run`` to its end, and everything that keeps it from one."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from .conftest import Desk, Ran

pytestmark = pytest.mark.processes


def test_to_the_end_then_refused_then_resumed(desk: Desk):
    file = desk.write(cost={"perWorkerHour": 1.0})
    forced = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TTY_COMPATIBLE": "1", "TERM": "xterm-256color"}
    ran = desk("run", file, environment=forced, code=0)
    folder = desk.folder / "results" / "desk"
    said = [line.split() for line in ran.err.splitlines()]
    assert [(words[0], words[2]) for words in said] == [("Succeeded", "1/2"), ("Succeeded", "2/2")]
    assert "\x1b" not in ran.err, "not a terminal, whatever the environment says"
    assert "\nweak          2  1x2     1/1 " in ran.out
    assert f"records: {folder}\nreport:  scalecurve report {folder}\n" in ran.out
    assert sorted(entry.name for entry in folder.iterdir()) == ["experiment.yaml", "ledger.jsonl", "trials"]
    assert (folder / "experiment.yaml").read_bytes() == file.read_bytes()
    records = {path: path.read_bytes() for path in sorted(folder.rglob("trial.json"))}
    assert len(records) == 2

    refused = desk.here("run", file, code=2)
    assert "already holds an experiment; continue it with --resume, or use another folder" in refused.err
    resumed = desk.here("run", file, "--resume", "-o", "json", code=0)
    assert resumed.json["phase"] == "Succeeded"
    assert resumed.json["bundle"] == str(folder)
    assert {path: path.read_bytes() for path in sorted(folder.rglob("trial.json"))} == records

    desk.write("other.yaml", cost={"perWorkerHour": 1.0}, measure={"windows": 3})
    other = desk.here("run", "other.yaml", "--bundle", folder, "--resume", code=2)
    assert "another experiment: spec.measure.windows is 2 there and 3 here" in other.err
    csv = desk.here("run", file, "--resume", "-o", "csv", code=0).rows
    assert [row["workers"] for row in csv] == ["1", "2"]


def test_a_torn_attempt_is_thrown_away_and_said(desk: Desk):
    file = desk.write()
    attempt = desk.folder / "b" / ".work" / "weak-1-1x1-r1" / "attempt-1"
    attempt.mkdir(parents=True)
    (desk.folder / "b" / "experiment.yaml").write_bytes(file.read_bytes())
    (attempt / "order.json").write_text("{")
    ran = desk.here("run", file, "--bundle", "b", "--resume", code=0)
    assert "\nscalecurve: weak-1-1x1-r1: attempt 1 was thrown away and is run again: " in ran.err
    assert f"{attempt}/order.json: is damaged" in ran.err


def test_a_suspended_experiment_says_that_it_is(desk: Desk):
    ran = desk.here("run", desk.write(suspend=True), "--bundle", "b", code=0)
    assert "spec.suspend is true, so nothing was started; remove it and resume with: scalecurve run " in ran.err
    desk.write(suspend=False)
    assert "2 of 2 trials done" in desk.here("run", "experiment.yaml", "--bundle", "b", "--resume", code=0).out


def test_the_name_of_a_bundle_cannot_speak_to_the_terminal(desk: Desk):
    file = desk.write()
    assert "not UTF-8" in desk("run", file, "--bundle", "\udcff", code=2).err
    ran = desk.here("run", file, "--bundle", "b\x1b[31m", code=0)
    assert ran.out.endswith("b\\x1b[31m'\n")
    assert desk.here("report", "b\x1b[31m", "--format", "md", code=0).out.startswith("b\\x1b[31m/report/report.md")


def test_a_dry_run_starts_nothing(desk: Desk):
    ran = desk("run", desk.write(), "--dry-run", code=0)
    assert ran.out.endswith("note: each worker has 1 core at every worker count\ndry run: nothing was started\n")
    assert list(desk.folder.iterdir()) == [desk.folder / "experiment.yaml"]
    found = desk.here("run", desk.write(), "--dry-run", "-o", "json", code=0).json
    assert found["totals"]["rows"][0]["trials"] == 2
    assert found["notes"]


def test_more_workers_than_cores_are_refused_and_when_forced_invalid(desk: Desk):
    cores = usable_cores(desk)
    file = desk.write(scaling={"modes": ["weak"], "workers": [1, cores + 1], "batch": {"perWorker": 4}})
    refused = desk.here("run", file, "--bundle", "b", code=3)
    assert f"{cores + 1} workers" in refused.err
    assert "--oversubscribe runs it anyway" in refused.err
    assert not (desk.folder / "b").exists()
    assert desk.here("run", file, "--dry-run", code=3).out.startswith("Plan of desk")
    assert desk.here("doctor", file, code=3).out.rstrip().endswith("no")

    ran = desk.here("run", file, "--bundle", "b", "--oversubscribe", code=1)
    assert "Invalid  Oversubscribed" in ran.out
    assert "1 Invalid" in ran.out
    doctor = desk.here("doctor", file, "--oversubscribe", "-o", "csv", code=0).rows
    assert doctor[-1]["good"] == "true"


def usable_cores(desk: Desk) -> int:
    """By the refusal's own words: far too many workers are asked for."""
    file = desk.write("huge.yaml", scaling={"modes": ["weak"], "workers": [1, 60000], "batch": {"perWorker": 4}})
    words = desk.here("doctor", file, "-o", "json", code=3).json["doctor"]["rows"][-1]["found"]
    return int(words.split("cores, and ")[1].split()[0])


def test_a_failing_workload_says_why_and_where_to_look(desk: Desk):
    ran = desk.here("run", desk.write("e.yaml", "--fail", "1"), "--bundle", "b", code=1)
    assert "Failed  RankFailed  rank 1 exited with code 1: RuntimeError: the widget" in ran.out
    assert "1/1" in ran.out, "one worker has no rank 1, and went well"
    (where,) = (line.split()[1] for line in ran.out.splitlines() if line.startswith("logs: "))
    (trial,) = (path.parent for path in Path(desk.folder).rglob("trial.json") if "weak-2" in str(path))
    logs = Path(where.replace("<trial>", trial.name))
    assert (logs / "rank-1.log").read_text().splitlines()[-1] == "RuntimeError: the widget \x1b[31mbroke"
    record = json.loads((trial / "trial.json").read_text())
    assert "steps: rank 1 begins" in record["logTail"]["1"]
    assert desk.here("status", "b", "-o", "csv", code=0).rows[1]["failed"] == "1"


def test_a_command_that_is_not_there(desk: Desk):
    workload = {"program": "custom", "device": "cpu", "command": ["no-such-program"]}
    ran = desk.here("run", desk.write(workload=workload), "--bundle", "b", code=1)
    assert "workload.command: cannot run 'no-such-program': No such file or directory" in ran.out


@pytest.mark.parametrize("place", ["file", "file/inside", "full", "/proc/bundle"])
def test_folders_that_cannot_be_written(desk: Desk, place: str):
    file = desk.write()
    (desk.folder / "file").touch()
    (desk.folder / "full").mkdir()
    (desk.folder / "full" / "thesis.tex").touch()
    ran = desk.here("run", file, "--bundle", place)
    assert ran.code in (2, 3)
    assert place.split("/")[0] in ran.err
    assert len(ran.err.splitlines()) == 1
    assert (desk.folder / "full" / "thesis.tex").exists()


@pytest.mark.parametrize("most", [100, 3000])
def test_a_disk_that_fills_up_ends_the_run_and_resume_goes_on(desk: Desk, most: int):
    """A limit on the size of files fails as a full disk does, at another moment for each limit."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    file = desk.write()
    ran = desk("run", file, "--bundle", "b", preexec_fn=limit, code=3)
    assert "File too large; everything recorded so far is kept: free space" in ran.err
    assert "2 of 2 trials done" in desk.here("run", file, "--bundle", "b", "--resume", code=0).out


def test_a_supervisor_that_cannot_write_its_report(desk: Desk):
    ran = desk.here("run", desk.write("e.yaml", "--block"), "--bundle", "b", code=3)
    assert "the supervisor of trial" in ran.err
    assert "continue with --resume" in ran.err


def test_no_gpu_here_is_an_environment_error(desk: Desk):
    workload: dict[str, Any] = {"program": "torch", "model": "resnet18", "device": "gpu"}
    ran: Ran = desk("run", desk.write(workload=workload), "--bundle", "b", environment={"CUDA_VISIBLE_DEVICES": ""})
    assert ran.code == 3
    assert "GPU" in ran.err
