"""``scalecurve quickstart`` up to its first trial; `make quickstart` runs it to the end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from scalecurve.cli.quickstart import fresh, last

from .conftest import HINT, Desk, processes_of, wait_for


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
    assert "real digits with accuracy" in said[0].out
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
