"""The verbs that read an experiment out of a cluster, against a real API server that holds what an operator leaves."""

from __future__ import annotations

import json
import os
import pty
import signal
import struct
import subprocess
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.checks.verify import verify
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.spec.trial import FailedReason, TrialPhase
from tests.cluster.cli_desk import Desk
from tests.cluster.kept import Kept, keep
from tests.waiting import PATIENCE_S, eventually
from tools.devcluster.player.record import Place, play_record
from tools.devcluster.player.script import Scenario as Play
from tools.devcluster.tier import Tier


@pytest.fixture
def desk(tier: Tier, namespace: str, tmp_path: Path) -> Desk:
    return Desk(tier, tmp_path, namespace)


@pytest.fixture
def kept(tier: Tier, namespace: str) -> Kept:
    return keep(tier, namespace, "seeded")


def progress(kept: Kept, **changes: Any) -> None:
    kept.report(**{"phase": "Running", "message": "1 of 4 trials done", "total": 4, "done": 1, **changes})


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_status_before_an_operator_has_seen_it(desk: Desk, kept: Kept) -> None:
    ran = desk("status", "seeded")
    assert ran.out.startswith(f"seeded in {desk.namespace}: Pending, not picked up by an operator yet\n")
    assert json.loads(desk("status", "seeded", "-o", "json").out)["finished"] is False


def test_status_tells_points_current_trials_and_conditions(desk: Desk, kept: Kept) -> None:
    for name in kept.trials:
        if name.endswith("-r1"):
            kept.end(name)
    kept.end("weak-2-1x2-r2", failure=FailedReason.out_of_memory)
    kept.begin("weak-1-1x1-r2")
    condition = {"type": "Stalled", "status": "True", "reason": "JobWaiting", "message": "Insufficient nvidia.com/gpu"}
    progress(
        kept,
        counts={"succeeded": 2, "failed": 1, "running": 1},
        current=[{"name": "seeded-weak-1", "point": "weak-1-1x1", "workers": 1, "phase": "Running"}],
        conditions=[{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    )
    shown = desk("status", "seeded").out
    assert f"seeded in {desk.namespace}: Running, 1 of 4 trials done" in shown
    assert "Insufficient nvidia.com/gpu" in shown
    tree = json.loads(desk("status", "seeded", "-o", "json").out)
    assert [(row["done"], row["failed"]) for row in tree["status"]["rows"]] == [("1/2", 0), ("2/2", 1)]
    assert tree["status"]["rows"][1]["efficiency"]["value"] == pytest.approx(0.88, abs=0.05)
    assert tree["current"]["rows"][0]["trial"] == "seeded-weak-1"
    assert tree["conditions"]["rows"][0]["reason"] == "JobWaiting"
    assert tree["experiments"][0]["counts"] == {"succeeded": 2, "failed": 1, "running": 1}
    assert desk("status", "seeded", "-o", "csv").out.count("\n") == 3


def test_a_status_agrees_with_the_bundle_that_is_pulled(desk: Desk, kept: Kept) -> None:
    for name in kept.trials:
        kept.end(name)
    desk("pull", "seeded", "--into", "b")
    there = json.loads(desk("status", "seeded", "-o", "json").out)["status"]["rows"]
    here = json.loads(desk("status", "b", "-o", "json").out)["status"]["rows"]
    for one, other in zip(there, here, strict=True):
        assert one["done"] == other["done"]
        assert one["throughput"]["value"] == pytest.approx(other["throughput"]["value"], rel=1e-3)


def test_folders_are_bundles_and_other_names_experiments(desk: Desk, kept: Kept) -> None:
    kept.end("weak-1-1x1-r1")
    desk("pull", "seeded", "--into", "here")
    assert desk("status", "here", "seeded").out.startswith("seeded: 1 of 4 trials done\nseeded in ")
    (desk.folder / "seeded").mkdir()
    assert "seeded: not a bundle" in desk("status", "seeded", code=2).err


@pytest.mark.parametrize("verb", ["status", "watch", "pull", "report"])
def test_what_is_not_there_is_said_with_what_is(desk: Desk, kept: Kept, verb: str) -> None:
    said = desk(verb, "sedeed", code=2).err
    assert "sedeed: no such folder, and no such experiment in namespace" in said
    assert said.endswith("found: seeded\n")
    assert list(desk.folder.iterdir()) == []


def test_a_pull_writes_what_an_engine_here_would(desk: Desk, kept: Kept) -> None:
    for name in kept.trials:
        kept.end(name)
    ran = desk("pull", "seeded")
    assert "trials fetched: 4, already present: 0" in ran.out
    folder = desk.folder / "results" / "seeded"
    for name, trial in kept.trials.items():
        played = play_record(trial, [Place("pod-0", "node-0")], kept.begin_ns(name), Play.succeed)
        wanted = assemble(trial, played.ranks, played.journals, Outcome(engine="kubernetes"))
        assert files(folder / "trials" / name) == {**wanted.tables, "trial.json": wanted.record.stored()}
    bundle = open_bundle(folder)
    assert not bundle.problems
    assert [trial.phase for trial in bundle.trials] == [TrialPhase.succeeded] * 4
    assert [trial.name for trial in bundle.trials] == list(kept.trials)


def test_a_second_pull_fetches_what_is_missing(desk: Desk, kept: Kept) -> None:
    kept.end("weak-1-1x1-r1")
    maps = kept.end("weak-2-1x2-r1", part=500)
    assert len(maps) > 1
    kept.begin("weak-2-1x2-r2")
    progress(kept)
    first = desk("pull", "seeded", "--into", "b").out
    assert "still running (pull again once they end): weak-2-1x2-r2\nnot started yet: 1\n" in first
    before = files(desk.folder / "b")
    for name in maps:
        kept.remove(name)
    kept.end("weak-2-1x2-r2", failure=FailedReason.out_of_memory)
    assert "trials fetched: 1, already present: 2" in desk("pull", "seeded", "--into", "b").out
    after = files(desk.folder / "b")
    assert after["ledger.jsonl"].startswith(before.pop("ledger.jsonl"))
    assert {name: after[name] for name in before} == before
    record = json.loads(after["trials/weak-2-1x2-r2/trial.json"])
    assert (record["phase"], record["reason"]) == ("Failed", "OutOfMemory")


def test_a_damaged_folder_is_fetched_anew_and_so_is_a_later_attempt(desk: Desk, kept: Kept) -> None:
    kept.end("weak-1-1x1-r1", failure=FailedReason.rank_failed)
    kept.end("weak-2-1x2-r1")
    desk("pull", "seeded", "--into", "b")
    kept.end("weak-1-1x1-r1", attempt=2)
    whole = files(desk.folder / "b" / "trials" / "weak-2-1x2-r1")
    (desk.folder / "b" / "trials" / "weak-2-1x2-r1" / "steps.parquet").write_bytes(b"PAR1")
    assert "trials fetched: 2, already present: 0" in desk("pull", "seeded", "--into", "b").out
    assert files(desk.folder / "b" / "trials" / "weak-2-1x2-r1") == whole
    bundle = open_bundle(desk.folder / "b")
    assert bundle.trials[0].phase is TrialPhase.succeeded
    assert verify(bundle).holds
    assert bundle.ledger is not None
    told = [(entry.event, entry.attempt, entry.phase) for entry in bundle.ledger.by_trial["weak-1-1x1-r1"]]
    assert told == [("pulled", 1, "Failed"), ("pulled", 2, "Succeeded")]


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda kept, maps: kept.damage(maps[0]), "have sha256"),
        (lambda kept, maps: kept.remove(maps[-1]), "is gone"),
    ],
)
def test_a_record_that_is_not_whole_is_not_written(
    desk: Desk, kept: Kept, break_it: Callable[[Kept, list[str]], None], said: str
) -> None:
    kept.end("weak-1-1x1-r1")
    break_it(kept, kept.end("weak-2-1x2-r1", part=500))
    ran = desk("pull", "seeded", "--into", "b", code=1)
    assert "weak-2-1x2-r1: not fetched: " in ran.err
    assert said in ran.err
    assert "trials fetched: 1" in ran.out
    assert [path.name for path in (desk.folder / "b" / "trials").iterdir()] == ["weak-1-1x1-r1"]


def test_a_trial_without_records_says_why(desk: Desk, kept: Kept) -> None:
    kept.end("weak-2-1x2-r1", lost="no record in the log")
    desk("pull", "seeded", "--into", "b")
    record = open_bundle(desk.folder / "b").trials[list(kept.trials).index("weak-2-1x2-r1")].record
    assert record is not None
    assert (record.phase, record.reason) == (TrialPhase.invalid, "RecordsMissing")
    assert record.message.endswith(": no record in the log")


def test_an_interrupted_pull_says_so(desk: Desk, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    from scalecurve.cluster import pull

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    kept.end("weak-1-1x1-r1")
    monkeypatch.setattr(pull, "put_together", interrupt)
    assert desk("pull", "seeded", "--into", "b", code=130).err == "scalecurve: interrupted\n"
    assert list((desk.folder / "b" / "trials").iterdir()) == []


def test_what_the_cluster_could_not_keep_is_said(desk: Desk, kept: Kept) -> None:
    kept.end("weak-2-1x2-r1", budget=1500)
    ran = desk("pull", "seeded", "--into", "b")
    assert "larger than the cluster keeps" in ran.out
    record = json.loads((desk.folder / "b" / "trials" / "weak-2-1x2-r1" / "trial.json").read_text())
    assert record["leftOut"][0].startswith("step journals of ranks 0-1")
    assert not open_bundle(desk.folder / "b").problems


def test_a_pull_that_is_killed_leaves_whole_trials(desk: Desk, tier: Tier, namespace: str) -> None:
    long = {"warmupSteps": 3, "windows": 4, "stepsPerWindow": 1_000, "repetitions": 6}
    kept = keep(tier, namespace, "large", measure=long)
    for name in kept.trials:
        kept.end(name)
    desk("pull", "large", "--into", "whole")
    want = files(desk.folder / "whole" / "trials")
    trials = desk.folder / "b" / "trials"
    for least in (1, 2, 5, 8):
        process = desk.begin("pull", "large", "--into", "b")

        def due(process: subprocess.Popen[str] = process, least: int = least) -> bool:
            return process.poll() is not None or (trials.is_dir() and len(list(trials.iterdir())) >= least)

        eventually(due, f"{least} trials", poll_s=0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = files(trials)
        assert found == {name: want[name] for name in want if (trials / name.split("/")[0]).exists()}
    desk("pull", "large", "--into", "b")
    assert files(desk.folder / "b" / "trials") == want
    assert verify(open_bundle(desk.folder / "b")).holds
    assert not (desk.folder / "b" / ".work" / "pull").exists()


def test_a_folder_of_something_else_is_left_alone(desk: Desk, kept: Kept, tier: Tier) -> None:
    kept.end("weak-1-1x1-r1")
    (desk.folder / "photos").mkdir()
    (desk.folder / "photos" / "a.jpg").touch()
    assert "holds a.jpg" in desk("pull", "seeded", "--into", "photos", code=2).err
    (desk.folder / "file").touch()
    assert "is a file" in desk("pull", "seeded", "--into", "file", code=2).err
    desk("pull", "seeded", "--into", "b")
    tier.rest.raw("DELETE", kept.path("scalingexperiments", "seeded"))
    again = keep(tier, desk.namespace, "seeded")
    assert again.experiment.metadata.uid != kept.experiment.metadata.uid
    assert "another experiment of this name" in desk("pull", "seeded", "--into", "b", code=2).err
    keep(tier, desk.namespace, "other")
    assert "belongs to seeded" in desk("pull", "other", "--into", "b", code=2).err


def test_two_pulls_at_once_are_one(desk: Desk, kept: Kept) -> None:
    import fcntl

    kept.end("weak-1-1x1-r1")
    desk("pull", "seeded", "--into", "b")
    with (desk.folder / "b" / ".work" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another pull or run is using it" in desk("pull", "seeded", "--into", "b", code=2).err


def test_a_report_pulls_first(desk: Desk, kept: Kept) -> None:
    for name in kept.trials:
        kept.end(name)
    ran = desk("report", "seeded", "--into", "b", "--format", "md")
    assert "trials fetched: 4" in ran.out
    assert "weak" in (desk.folder / "b" / "report" / "report.md").read_text()


def test_watching_ends_with_the_experiment(desk: Desk, kept: Kept) -> None:
    progress(
        kept,
        message="0 of 4 trials done",
        done=0,
        current=[{"name": "n", "point": "weak-1-1x1", "workers": 1, "phase": "Queued"}],
    )
    process = desk.begin("watch", "seeded", "--every", "0.1")
    assert process.stdout is not None
    assert process.stdout.readline() == (
        f"seeded in {desk.namespace}: Running, 0 of 4 trials done; now: weak-1-1x1 queued\n"
    )
    progress(kept, counts={"succeeded": 3, "failed": 1}, current=[])
    assert process.stdout.readline() == f"seeded in {desk.namespace}: Running, 1 of 4 trials done\n"
    headline = {"series": "weak", "mode": "weak", "workers": 2, "efficiency": "93.1 %"}
    progress(kept, phase="Succeeded", message="4 of 4 trials done, 1 Failed", headlines=[headline])
    out, err = process.communicate(timeout=PATIENCE_S)
    assert "93.1 %" in out
    assert out.endswith(f"seeded in {desk.namespace}: Succeeded, 4 of 4 trials done, 1 Failed\n")
    assert (process.returncode, err) == (1, "")


def on_a_terminal(desk: Desk, *words: str, once: tuple[str, Callable[[], object]] | None = None) -> tuple[int, str]:
    """The exit code, and all output; ``once`` is a text and what to do when it has been shown."""
    master, slave = pty.openpty()
    ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
    process = desk.begin(*words, stdout=slave, stderr=slave, environment={"TERM": "xterm-256color"})
    os.close(slave)
    output = b""
    while True:
        try:
            output += os.read(master, 65536)
        except OSError:  # EIO: the command has closed its end
            break
        if once is not None and once[0].encode() in output:
            once[1]()
            once = None
    os.close(master)
    return process.wait(timeout=PATIENCE_S), output.decode()


def test_a_live_table_and_a_progress_bar_on_a_terminal(desk: Desk, kept: Kept) -> None:
    for name in kept.trials:
        kept.end(name)
    progress(kept, current=[{"name": "seeded-1", "point": "weak-2-1x2", "workers": 2, "phase": "Starting"}])

    def end() -> None:
        progress(kept, phase="Succeeded", message="4 of 4 trials done", current=[])

    code, seen = on_a_terminal(desk, "watch", "seeded", "--every", "0.1", once=("Starting", end))
    assert code == 0
    assert "weak-2-1x2" in seen
    assert seen.endswith("Succeeded, 4 of 4 trials done\r\n")
    code, seen = on_a_terminal(desk, "pull", "seeded", "--into", "b")
    assert code == 0
    assert "fetching" in seen
    assert "trials fetched: 4" in seen


@pytest.mark.parametrize(
    ("phase", "counts", "code"),
    [("Succeeded", {"succeeded": 4}, 0), ("Succeeded", {"succeeded": 3, "invalid": 1}, 1), ("Failed", {}, 1)],
)
def test_how_watching_ends(desk: Desk, kept: Kept, phase: str, counts: dict[str, int], code: int) -> None:
    progress(kept, phase=phase, counts=counts)
    desk("watch", "seeded", code=code)


def test_watching_what_is_deleted(desk: Desk, kept: Kept, tier: Tier) -> None:
    progress(kept)
    process = desk.begin("watch", "seeded", "--every", "0.1")
    assert process.stdout is not None
    assert "1 of 4 trials done" in process.stdout.readline(), "it has been seen"
    tier.rest.raw("DELETE", kept.path("scalingexperiments", "seeded"))
    _, err = process.communicate(timeout=PATIENCE_S)
    assert "seeded was deleted" in err
    assert process.returncode == 2


def test_who_may_not_look_is_told(desk: Desk, kept: Kept, tier: Tier) -> None:
    nobody = tier.user("nobody")
    desk.where = ["--kubeconfig", str(nobody), "-n", desk.namespace]
    said = desk("status", "seeded", code=3).err
    assert "refused the request (403 Forbidden)" in said
    assert 'User "nobody" cannot get resource "scalingexperiments"' in said


def test_a_cluster_that_does_not_answer(desk: Desk, tmp_path: Path, tier: Tier) -> None:
    dead = tmp_path / "dead.kubeconfig"
    dead.write_text(tier.kubeconfig.read_text().replace(tier.server, "https://127.0.0.1:1"))
    desk.where = ["--kubeconfig", str(dead)]
    said = desk("status", "seeded", code=3).err
    assert said.startswith("scalecurve: no answer from https://127.0.0.1:1")
    assert "Connection refused" in said
    assert os.linesep not in said.rstrip()
