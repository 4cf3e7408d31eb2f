"""``scalecurve run --add-session`` and ``--against``, and what ``plan`` says of sessions and precision."""

from __future__ import annotations

import fcntl
import re
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

from .conftest import Desk


def test_a_session_is_added_to_an_unpacked_bundle_and_shown(desk: Desk, bundle: Path):
    shutil.copytree(bundle, desk.folder / "b")
    desk.here("pack", "b", "--out", "b.zip", code=0)
    file = desk.folder / "b" / "experiment.yaml"
    assert (
        "is a file, and a run writes a folder"
        in desk.here("run", file, "--bundle", "b.zip", "--add-session", code=2).err
    )
    desk.here("unpack", "b.zip", "--out", "elsewhere", code=0)
    planned = desk.here("run", file, "--bundle", "elsewhere", "--add-session", "--dry-run", "-o", "json", code=0).json
    assert {row["trial"] for row in planned["trials"]["rows"]} == {
        f"weak-{count}-1x{count}-s2-r{number}" for count in (1, 2) for number in (3, 4)
    }
    desk.here("run", file, "--bundle", "elsewhere", "--add-session", code=0)
    assert "8 of 8 trials done" in desk.here("status", "elsewhere", code=0).out
    claims = desk.here("verify", "elsewhere", "-o", "json").json["claims"]["rows"]
    history = [row for row in claims if row["claim"] in ("ledger", "experiment", "records", "attempts")]
    assert len(history) == 4
    assert {row["holds"] for row in history} == {"holds"}, history


def test_a_dry_run_of_a_session_refuses_what_the_run_would(desk: Desk, bundle: Path):
    file = desk.write(measure={"repetitions": 3}, name="finished")
    for words in ([], ["--dry-run"]):
        refused = desk.here("run", file, "--bundle", bundle, "--add-session", *words, code=2).err
        assert "another experiment: spec." in refused
        assert "no bundle to add a session to" in desk.here("run", file, "--add-session", *words, code=2).err


def test_a_session_stopped_while_it_waits_is_asked_for_again(desk: Desk, bundle: Path, locks: Path):
    shutil.copytree(bundle, desk.folder / "b")
    with ExitStack() as held:
        for lock in locks.iterdir():
            fcntl.flock(held.enter_context(lock.open("a")), fcntl.LOCK_EX | fcntl.LOCK_NB)
        waiting = desk.begin("run", "b/experiment.yaml", "--bundle", "b", "--add-session")
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("waiting for ")
        waiting.send_signal(signal.SIGINT)
        assert desk.end(waiting).err.strip().endswith("run b/experiment.yaml --bundle b --add-session")


def test_two_experiments_in_turns_are_compared(desk: Desk):
    twice = {"repetitions": 2}
    first = desk.write("a.yaml", name="a", measure=twice)
    second = desk.write("b.yaml", "--rows", name="b", measure=twice)
    ran = desk.here("run", first, "--against", second, code=0)
    assert "a → b" in ran.out
    assert "Decided by: runs by turns in one session." in ran.out
    ended = re.findall(r"^  Succeeded  (\S+)  (\d)/8 trials", ran.err, re.MULTILINE)
    assert [int(number) for _, number in ended] == list(range(1, 9))
    assert {name.split("-")[0] for name, _ in ended} == {"a/weak", "b/weak"}
    for name in "ab":
        assert f"records: {desk.folder}/results/{name}" in ran.out
        assert "4 of 4 trials done" in desk.here("status", f"results/{name}", code=0).out
    refused = desk.here("run", first, "--against", first, "--bundle", "new", "--against-bundle", "new", code=2)
    assert "is the bundle of both experiments" in refused.err
    assert "--against-bundle requires --against" in desk.here("run", first, "--against-bundle", "x", code=2).err


def test_the_sessions_that_an_experiment_asks_for_are_named_one_after_the_other(desk: Desk):
    file = desk.write(measure={"sessions": {"count": 2}})
    ran = desk.here("run", file, code=0)
    hint = f"scalecurve run {file} --bundle results/desk --add-session"
    assert f"session 1 of 2 complete; run the next one later, or on another machine, with: {hint}" in ran.err
    assert "2 of 4 trials done" in desk.here("status", "results/desk", code=0).out
    assert "the next one" not in desk.here("run", file, "--add-session", code=0).err
    assert "4 of 4 trials done" in desk.here("status", "results/desk", code=0).out


def test_plan_says_what_sessions_and_precision_mean(desk: Desk):
    file = desk.write(
        cost={"perWorkerHour": 1.0},
        measure={"sessions": {"count": 3, "everyHours": 12}}
        | {"precision": {"efficiency": 0.01, "maxRepetitions": 10}},
    )
    found = desk.here("plan", file, "--step-time", "1", "-o", "json", code=0).json
    (totals,) = found["totals"]["rows"]
    assert totals["trials"] == 3 * 10 * 2
    notes = "\n".join(found["totals"]["notes"])
    assert "3 sessions, 12 h or more from one start to the next; the totals are of all of them" in notes
    assert "5 to 10 repetitions in a session, until every efficiency of a series is known to 1 %" in notes
    assert "the totals are an upper limit, 50 % of them at least" in notes
    few = desk.write(measure={"repetitions": 4, "precision": {"efficiency": 0.01, "maxRepetitions": 3}})
    assert "spec.measure.precision.maxRepetitions" in desk.here("plan", few, code=2).err
