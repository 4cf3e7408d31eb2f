"""What a run shows while it runs: one live line on a terminal, nothing elsewhere."""

from __future__ import annotations

import re

import pytest

from .conftest import CONTROL, Desk, Terminal

pytestmark = pytest.mark.processes
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_the_live_line(desk: Desk):
    """Each trial goes on when what is to be seen of it was shown."""
    holds = [desk.folder / f"hold-{workers}" for workers in (1, 2)]
    for hold in holds:
        hold.touch()
    file = desk.write("experiment.yaml", "--hold", str(desk.folder / "hold-{workers}"))
    terminal = Terminal(desk, "run", file, "--bundle", "b", columns=160)
    first = re.compile(r"0/2 trials · weak-(\d).*step \d+ \((warm-up|window \d)\) · [\d.]+ steps/s, [\d,]+ samples/s")
    second = re.compile(r"1/2 trials · \d:\d\d left · weak-")
    shown = terminal.read(lambda text: first.search(ESCAPE.sub("", text)))
    running = first.search(ESCAPE.sub("", shown))
    assert running, shown
    holds.pop(int(running[1]) - 1).unlink()
    shown = terminal.read(lambda text: second.search(ESCAPE.sub("", text)))
    assert second.search(ESCAPE.sub("", shown)), shown
    holds.pop().unlink()
    assert terminal.wait() == 0
    shown = ESCAPE.sub("", terminal.text)
    assert "each worker has 1 core" in shown
    assert sorted(re.findall(r"Succeeded +(\S+)\r", shown)) == ["weak-1-1x1-r1", "weak-2-1x2-r1"]
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h") == 1, "the cursor is back"
    left = shown[shown.index("Scaling\r\n") :]
    assert not CONTROL.search(left.replace("\r\n", "\n")), "the result itself is plain text"


def test_a_narrow_terminal_has_one_line_too(desk: Desk):
    terminal = Terminal(desk, "run", desk.write(), "--bundle", "b", columns=40)
    assert terminal.wait() == 0
    live = terminal.text[: terminal.text.index("Scaling\r\n")]
    lines = [ESCAPE.sub("", line) for line in re.split(r"[\r\n]+", live) if "trials" in line]
    assert max(map(len, lines)) <= 40
    assert live.count("\x1b[1A") <= 1, "only to take itself away at the end: it never was more than a line"


def test_quiet_shows_the_result_alone(desk: Desk):
    terminal = Terminal(desk, "run", desk.write(), "--bundle", "b", "--quiet")
    assert terminal.wait() == 0
    first, *lines = terminal.text.split("\r\n")
    assert first.startswith("warning: unproved: 1 of 2 points: no communication was observed")
    assert next(line for line in lines if not line.startswith("  ")) == "Scaling"
    assert "\x1b" not in terminal.text
