"""What the engine writes into a bundle's ledger, whatever ends a run."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from scalecurve_api.record.ledger import Event, Ledger, read_ledger
from scalecurve_local.errors import StorageError
from tests.waiting import eventually

from .conftest import Lab

pytestmark = pytest.mark.processes
ONE: dict[str, Any] = {"scaling": {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}}}
T1, T2 = "weak-1-1x1-r1", "weak-2-1x2-r1"


def ledger_of(lab: Lab) -> Ledger:
    ledger = read_ledger((lab.bundle / "ledger.jsonl").read_bytes())
    assert not ledger.breaks
    return ledger


def told(lab: Lab) -> list[tuple[str, str | None, int | None]]:
    return [(entry.event, entry.trial, entry.attempt) for entry in ledger_of(lab).entries]


def test_a_run_tells_its_experiment_session_and_attempts(lab: Lab) -> None:
    lab.write()
    lab.run()
    assert told(lab)[:2] == [("experiment", None, None), ("session", None, None)]
    assert sorted(told(lab)[2:], key=str) == [
        *[("attempt-ended", trial, 1) for trial in (T1, T2)],
        *[("attempt-started", trial, 1) for trial in (T1, T2)],
    ]
    started = {entry.trial: entry.digest for entry in ledger_of(lab).of(Event.started)}
    assert {trial: lab.record(trial)["ledger"] for trial in (T1, T2)} == started
    lab.run(add_session=True)
    assert [entry.session for entry in ledger_of(lab).of(Event.session)] == [1, 2]


def test_a_trial_that_is_rolled_again_is_told_and_gets_the_next_number(lab: Lab) -> None:
    lab.write()
    lab.run()
    shutil.rmtree(lab.bundle / "trials" / T1)
    assert lab.run(resume=True).exit_code == 0
    assert lab.record(T1)["attempt"] == 2
    (gone,) = ledger_of(lab).of(Event.discarded)
    assert (gone.trial, gone.attempt) == (T1, 1)
    assert gone.why == "its record was removed from the bundle after it had ended"


def test_a_killed_attempt_is_told(lab: Lab) -> None:
    lab.write("hang:0", **ONE)
    engine = lab.begin()
    eventually(lambda: list(lab.bundle.glob(".work/*/attempt-1/order.json")), "the order")
    engine.kill()
    engine.wait()
    lab.write(**ONE)
    shutil.copy(lab.file, lab.bundle / "experiment.yaml")
    assert lab.run(resume=True).exit_code == 0
    assert [entry.event for entry in ledger_of(lab).by_trial[T1]] == [
        *("attempt-started", "attempt-discarded", "attempt-started", "attempt-ended")
    ]
    assert len(ledger_of(lab).of(Event.experiment)) == 2  # it was edited in between


def test_a_retry_keeps_what_it_follows(lab: Lab) -> None:
    lab.write("exit:0:1", failurePolicy={"retries": 1}, **ONE)
    lab.run()
    ended = ledger_of(lab).of(Event.ended)
    assert [(entry.attempt, entry.phase) for entry in ended] == [(1, "Failed"), (2, "Failed")]
    assert ledger_of(lab).standing()[T1] == (2, ended[1].sha256)


def test_a_bundle_without_a_ledger_is_adopted(lab: Lab) -> None:
    lab.write(**ONE)
    lab.run()
    (lab.bundle / "ledger.jsonl").unlink()
    lab.run(add_session=True)
    (adopted,) = ledger_of(lab).of(Event.adopted)
    assert list(adopted.records or {}) == [T1]


def test_a_line_torn_by_a_kill_is_cut_off(lab: Lab) -> None:
    lab.write(**ONE)
    lab.run()
    ledger = lab.bundle / "ledger.jsonl"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole + b'{"n":4,"ev')
    lab.run(resume=True)
    assert ledger.read_bytes() == whole


def test_a_ledger_that_cannot_be_written_stops_before_anything_is_started(lab: Lab) -> None:
    lab.write(**ONE)
    lab.bundle.mkdir()
    (lab.bundle / ".work").mkdir()
    (lab.bundle / "experiment.yaml").write_text(lab.file.read_text())
    (lab.bundle / "ledger.jsonl").mkdir()
    with pytest.raises(StorageError, match=r"ledger\.jsonl"):
        lab.run(resume=True)
    assert not lab.notes()


def test_lines_are_json_with_sorted_keys(lab: Lab) -> None:
    lab.write(**ONE)
    lab.run()
    for line in (lab.bundle / "ledger.jsonl").read_text().splitlines():
        assert line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":"))
