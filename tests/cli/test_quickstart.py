"""``scalecurve quickstart`` up to its first trial; `make quickstart` runs it to the end."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalecurve.cli.quickstart import fresh, last
from scalecurve.planning.starters import Starter
from scalecurve_local import StopRequest
from scalecurve_local.devices.cores import CpuLoad
from tests.waiting import eventually

from .conftest import HINT, Desk, none_left


@pytest.mark.processes
def test_interrupted_it_goes_on_where_it_was(desk: Desk):
    folder = desk.folder / "my results" / "quickstart"
    said = []
    for attempt, words in enumerate(([], ["--resume"]), start=1):
        process = desk.begin("quickstart", "--into", "my results", *words)
        begun = f"quickstart/.work/*/attempt-{attempt}"
        eventually(lambda begun=begun: list(folder.glob(begun)), begun)
        process.send_signal(signal.SIGINT)
        said.append(desk.end(process))
        assert said[-1].code == 130
        assert HINT.findall(said[-1].err) == ["scalecurve quickstart --into 'my results' --resume"]
    assert [entry.name for entry in (desk.folder / "my results").iterdir()] == ["quickstart"]
    assert "digit images trained to accuracy" in said[0].out
    none_left(desk.folder)


@pytest.mark.processes
def test_when_its_time_is_up_on_a_busy_machine_it_ends_with_a_report(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """Far more trials than fit, of a light program: the time of each experiment is up with its first trial."""
    light = [
        Starter(name, desk.write(f"{name}.yaml", name=name, measure={"repetitions": 500}).read_text())
        for name in ("quickstart", "quickstart-digits")
    ]
    limits: list[float | None] = []
    goals: list[int] = []

    def published() -> int:
        return len(list(desk.folder.glob("results/quickstart/*/trials/*")))

    @contextmanager
    def within(_: StopRequest, seconds: float | None) -> Iterator[None]:
        limits.append(seconds)
        goals.append(published() + 1)
        yield

    monkeypatch.setattr("scalecurve.cli.quickstart.starters", lambda *_: (light, "chosen"))
    monkeypatch.setattr("scalecurve_local.devices.cores.measure_load", lambda _: CpuLoad(busy=0.5, stolen=0))
    monkeypatch.setattr(StopRequest, "within", within)
    monkeypatch.setattr(StopRequest, "requested", property(lambda stop: stop.times > 0 or published() >= goals[-1]))
    monkeypatch.setenv("SCALECURVE_LOCKS", desk.environment["SCALECURVE_LOCKS"])
    ran = desk.here("quickstart", "--time-limit", "40", "--quiet", code=0)
    assert [limit is not None and limit <= most for limit, most in zip(limits, (20.4, 34), strict=True)] == [True] * 2
    assert ran.out.splitlines()[0].startswith("busy: other processes use 50 % of the cores")
    late = re.search(
        r"out of time: (\d+) of 1000 trials of quickstart ran; the rest: scalecurve quickstart .*--resume", ran.out
    )
    assert late is not None
    assert int(late[1]) > 0
    assert late.start() < ran.out.index("Scaling")
    assert (desk.folder / "results/quickstart/report/report.html").exists()
    assert "report: results/quickstart/report/report.html" in ran.out
    none_left(desk.folder)


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
