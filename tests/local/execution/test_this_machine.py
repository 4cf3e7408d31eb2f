"""The carrier of this machine, beyond what runs of whole experiments show."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from scalecurve_api.planning.plan import make_plan
from scalecurve_local import InputError, RunProgress, UnavailableError
from scalecurve_local.carrier import State
from scalecurve_local.execution.this_machine import ThisMachine
from tests.api.example_experiments import experiment
from tests.local.conftest import Lab, processes_of


def test_what_it_did_not_start_is_unknown_and_may_be_stopped(tmp_path: Path) -> None:
    machine = ThisMachine({})
    for id in ("scalecurve-0123456789ab", "", "../elsewhere"):
        machine.attach(id)
        machine.stop([id], at_once=True)
    assert machine.poll(["scalecurve-0123456789ab", ""], 60) == {
        "scalecurve-0123456789ab": State.unknown,
        "": State.unknown,
    }, "and is not waited for"


def test_it_is_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    of = experiment()
    with pytest.raises(UnavailableError, match=r"on Linux only .*this is Darwin"):
        ThisMachine({}).admit(tmp_path, of.spec, make_plan(of).trials, {})


def test_a_plan_for_several_nodes_is_refused(tmp_path: Path) -> None:
    of = experiment({"placement": {"layouts": ["2x1"]}, "scaling/workers": [2]})
    with pytest.raises(InputError, match="needs 2 nodes"):
        ThisMachine({}).admit(tmp_path, of.spec, make_plan(of).trials, {})


@pytest.mark.processes
def test_an_engine_that_fails_leaves_nothing_running(lab: Lab) -> None:
    lab.write("hang:0", scaling={"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}})

    def fail(progress: RunProgress) -> None:
        if progress.pace is not None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lab.run(report=fail)
    assert not processes_of(lab.bundle), "when its error is raised"
