"""Ctrl-C, hang-ups and other runs: 130, what was recorded is kept, nothing is left running, hints work as typed."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, eventually

from .conftest import HINT, SCALECURVE, Desk, Ran, Terminal, check, none_left

pytestmark = pytest.mark.processes


def as_typed(desk: Desk, command: str) -> Ran:
    """The command, put into a shell as it stands."""
    path = f"{SCALECURVE.parent}{os.pathsep}{desk.environment['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=desk.folder,
        env={**desk.environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    ran = Ran(command, done.returncode, done.stdout, done.stderr)
    check(ran)
    return ran


def test_ctrl_c_stops_keeps_and_hints(desk: Desk):
    desk.hold().rename(desk.folder / "my 'own' experiment.yaml")
    process = desk.begin("run", "my 'own' experiment.yaml", "--bundle", "the bundle", "-o", "json")
    eventually(desk.stepping, "steps")
    process.send_signal(signal.SIGINT)
    ran = desk.end(process)
    assert ran.code == 130
    none_left(desk.folder)
    assert [row["throughput"] for row in ran.json["scaling"]["rows"]] == ["?", "?"]
    (hint,) = HINT.findall(ran.err)
    desk.let_go()
    assert as_typed(desk, hint).code == 0
    assert "2 of 2 trials done" in desk.here("status", "the bundle", code=0).out


def test_the_hint_repeats_the_options_it_needs(desk: Desk):
    desk.hold()
    process = desk.begin("run", "held.yaml", "--bundle", "b", "--oversubscribe", "--metrics-port", "0", "--quiet")
    eventually((desk.folder / "b" / "trials").exists, "the bundle")
    process.send_signal(signal.SIGTERM)
    ran = desk.end(process)
    assert ran.code == 130
    assert HINT.findall(ran.err) == ["scalecurve run held.yaml --bundle b --resume --oversubscribe --metrics-port 0"]


def test_ctrl_c_in_a_terminal(desk: Desk):
    desk.hold()
    terminal = Terminal(desk, "run", "held.yaml", "--bundle", "b", columns=200)
    terminal.read(lambda text: "steps/s" in text)
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert "stopping" in terminal.text
    none_left(desk.folder)
    assert HINT.findall(terminal.text) == ["scalecurve run held.yaml --bundle b --resume\r"]


def test_a_terminal_that_is_closed(desk: Desk):
    file = desk.hold()
    terminal = Terminal(desk, "run", file, "--bundle", "b")
    terminal.read(lambda _: desk.stepping())
    terminal.close()
    os.waitpid(terminal.pid, 0)
    none_left(desk.folder)
    assert "0 of 2 trials done" in desk.here("status", "b", code=0).out
    desk.let_go()
    desk.here("run", file, "--bundle", "b", "--resume", code=0)


def test_two_runs_on_the_same_cores(desk: Desk):
    """The second is refused at once where it may not wait; one that waits can be interrupted, and goes on later."""
    file = desk.hold()
    first = desk.begin("run", file, "--bundle", "first")
    eventually(desk.stepping, "steps")
    refused = desk.here("run", file, "--bundle", "b", "--no-wait", code=3)
    assert f"a device of this run is in use by another run (process {first.pid}, bundle " in refused.err
    waiting = desk.begin("run", "held.yaml", "--bundle", "b")
    assert waiting.stderr is not None
    said = waiting.stderr.readline()
    assert said.startswith("waiting for a device of this run")
    assert str(desk.folder / "first") in said
    waiting.send_signal(signal.SIGINT)
    interrupted = desk.end(waiting)
    assert (interrupted.code, interrupted.out) == (130, "")
    assert not (desk.folder / "b").exists()
    desk.let_go()
    assert desk.end(first).code == 0
    (hint,) = HINT.findall(interrupted.err)
    assert as_typed(desk, hint).code == 0


def test_a_resume_that_waits_knows_what_is_done(desk: Desk, locks: Path):
    """And that another experiment's bundle is not its own, before it waits."""
    file = desk.write()
    desk.here("run", file, "--bundle", "b", code=0)
    with ExitStack() as held:
        for lock in locks.iterdir():
            fcntl.flock(held.enter_context(lock.open("a")), fcntl.LOCK_EX | fcntl.LOCK_NB)
        waiting = desk.begin("run", file, "--bundle", "b", "--resume")
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("waiting for ")
        waiting.send_signal(signal.SIGINT)
        assert "interrupted after 2 of 2 trials done" in desk.end(waiting).err
        other = desk.write("other.yaml", measure={"repetitions": 3})
        refused = desk.here("run", other, "--bundle", "b", "--resume", code=2)
        assert "this bundle is of another experiment" in refused.err
