"""``scalecurve quickstart`` up to its first trial; `make quickstart` runs it to the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scalecurve.cli.quickstart import fresh, last
from scalecurve.planning.starters import Starter

from .conftest import HINT, Desk, processes_of, wait_for

LIMIT_S = 40


@pytest.mark.processes
def test_interrupted_it_goes_on_where_it_was(desk: Desk):
    folder = desk.folder / "my results" / "quickstart"
    said = []
    for attempt, words in enumerate(([], ["--resume"]), start=1):
        process = desk.begin("quickstart", "--into", "my results", *words)
        wait_for(lambda number=attempt: list(folder.glob(f"quickstart/.work/*/attempt-{number}")))
        process.send_signal(signal.SIGINT)
        said.append(desk.end(process))
        assert said[-1].code == 130
        assert HINT.findall(said[-1].err) == ["scalecurve quickstart --into 'my results' --resume"]
    assert [entry.name for entry in (desk.folder / "my results").iterdir()] == ["quickstart"]
    assert "digit images trained to accuracy" in said[0].out
    assert not processes_of(desk.folder)


@pytest.mark.processes
def test_on_a_busy_machine_it_ends_in_time_with_a_report(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """Far more trials than fit, of a light program; the neighbours give way (nice 19), so that some trials end."""
    light = [
        Starter(name, desk.write(f"{name}.yaml", name=name, measure={"repetitions": 500}).read_text())
        for name in ("quickstart", "quickstart-digits")
    ]
    monkeypatch.setattr("scalecurve.cli.quickstart.starters", lambda *_: (light, "chosen"))
    monkeypatch.setenv("SCALECURVE_LOCKS", desk.environment["SCALECURVE_LOCKS"])
    spin = f"import time; end = time.time() + {5 * LIMIT_S}\nwhile time.time() < end: pass"
    neighbours = [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", spin]) for _ in os.sched_getaffinity(0)]
    try:
        ran = desk.here("quickstart", "--time-limit", LIMIT_S, "--quiet", code=0)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    assert ran.out.splitlines()[0].startswith("busy: other processes use ")
    late = re.search(
        r"out of time: (\d+) of 1000 trials of quickstart ran; the rest: scalecurve quickstart .*--resume", ran.out
    )
    assert late is not None
    assert int(late[1]) > 0
    assert late.start() < ran.out.index("Scaling")
    assert (desk.folder / "results/quickstart/report/report.html").exists()
    assert "report: results/quickstart/report/report.html" in ran.out
    assert not processes_of(desk.folder)


def test_nothing_to_go_on_with(desk: Desk):
    assert "no quickstart to resume; drop --resume" in desk.here("quickstart", "--resume", code=2).err


def test_every_quickstart_has_its_own_folder(tmp_path: Path):
    assert last(tmp_path) is None
    made = []
    for _ in range(3):
        made.append(fresh(tmp_path))
        made[-1].mkdir(parents=True)
        assert last(tmp_path) == made[-1]
    assert [folder.name for folder in made] == ["quickstart", "quickstart-2", "quickstart-3"]
