"""Two experiments in one session: in pairs, in turns, resumed as pairs, and refused where there would be none."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.checks.compare import ran_in_turns
from scalecurve_api.record.ledger import Event
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_local import RunRequest, RunResult, StopRequest, run_in_turns
from scalecurve_local.devices.locks import LOCKS_ENV, Locks, StopRequestedError
from scalecurve_local.errors import InputError

from .conftest import Lab

pytestmark = pytest.mark.processes

TWICE = {"warmupSteps": 1, "windows": 1, "stepsPerWindow": 5, "repetitions": 2}


class Pair:
    """Two labs with one ledger of executions."""

    def __init__(self, folder: Path, new_lab: Callable[[Path], Lab]) -> None:
        self.first, self.second = new_lab(folder / "a"), new_lab(folder / "b")
        self.second.ledger = self.first.ledger
        self.first.write(measure=TWICE)
        self.second.write(measure=TWICE, workload={"env": {"LIGHT": "b"}})

    def run(self, **options: Any) -> list[RunResult]:
        jobs = [RunRequest(lab.experiment, lab.file.read_text(), lab.bundle) for lab in self.labs]
        return run_in_turns(jobs, **options)

    @property
    def labs(self) -> tuple[Lab, Lab]:
        return self.first, self.second

    def order(self) -> list[str]:
        """Trials in the order in which they began, over both experiments."""
        return [note["trial"] for note in self.first.notes() if note["event"] == "begin" and note["rank"] == 0]

    def paired(self) -> set[str | None]:
        return {lab.record(name).get("paired") for lab in self.labs for name in lab.published()}


@pytest.fixture
def pair(tmp_path: Path, new_lab: Callable[[Path], Lab]) -> Pair:
    return Pair(tmp_path, new_lab)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Two experiments that ran in turns to the end, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("finished")
    pair = Pair(folder, made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOCKS_ENV, str(folder / "locks"))
        assert [result.exit_code for result in pair.run()] == [0, 0]
    return pair


def made(folder: Path) -> Lab:
    folder.mkdir()
    return Lab(folder)


def test_each_trial_runs_next_to_its_partner_and_both_bundles_say_so(finished: Pair) -> None:
    pair, order = finished, finished.order()
    assert order[::2] == order[1::2], "pairs stay together"
    assert len(order) == 2 * len(pair.first.published()) == 2 * len(pair.second.published()) == 8
    (name,) = pair.paired()
    assert name
    sides = [[TrialRecord.model_validate(lab.record(trial)) for trial in lab.published()] for lab in pair.labs]
    assert ran_in_turns(*sides)
    later = [record.model_copy(update={"paired": None, "timeline": []}) for record in sides[1]]
    assert not ran_in_turns(sides[0], later)
    for lab in pair.labs:
        assert [entry.paired for entry in LedgerFile(lab.bundle).ledger.of(Event.session)] == [name]


def test_each_goes_first_in_half_of_the_repetitions_of_a_point(finished: Pair) -> None:
    began = {
        (side, name): pair_lab.record(name)["timeline"][0]["atNs"]
        for side, pair_lab in enumerate(finished.labs)
        for name in pair_lab.published()
    }
    for point in ("weak-1-1x1", "weak-2-1x2"):
        leads = [began[0, f"{point}-r{number}"] < began[1, f"{point}-r{number}"] for number in (1, 2)]
        assert sorted(leads) == [False, True]


def test_partners_have_the_same_devices(finished: Pair) -> None:
    for name in finished.first.published():
        devices = [[rank["device"] for rank in lab.record(name)["topology"]] for lab in finished.labs]
        assert devices[0] == devices[1]


def test_stopped_and_resumed_it_is_the_same_session(pair: Pair) -> None:
    stop = StopRequest()
    counted = itertools.count()

    def interrupt(_: object) -> None:
        if len(pair.order()) >= 3 and next(counted) == 0:
            stop(signal.SIGINT, None)

    assert {result.exit_code for result in pair.run(stop=stop, report=interrupt)} == {130}
    assert len(pair.first.published()) < 4
    assert [result.exit_code for result in pair.run(resume=True)] == [0, 0]
    assert len(pair.paired()) == 1
    assert len(pair.first.published()) == len(pair.second.published()) == 4


def test_a_limit_does_not_pass_while_another_run_has_the_devices(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopRequest()

    def taken(*_: object, stopped: Callable[[], bool], **__: object) -> Locks:
        assert not stopped()
        raise StopRequestedError

    monkeypatch.setattr("scalecurve_local.execution.this_machine.take", taken)
    with stop.within(0):
        assert all(result.interrupted or not result.records for result in pair.run(stop=stop))
        assert stop.requested


def test_killed_at_any_event_nothing_is_lost_and_all_are_pairs(pair: Pair) -> None:
    against = f"against={pair.second.file}::{pair.second.bundle}"
    for further in range(1, 7):
        engine = pair.first.begin_and_reach(further, against, *(["resume"] if further > 1 else []))
        engine.kill()
        engine.communicate()
    assert [result.exit_code for result in pair.run(resume=True)] == [0, 0]
    assert len(pair.first.published()) == len(pair.second.published()) == 4
    assert len(pair.paired()) == 1
    assert not [claim for lab in pair.labs for claim in open_bundle(lab.bundle).claims if claim.holds is False]


def test_resumed_alone_the_rest_is_no_pair(pair: Pair) -> None:
    stop = StopRequest()

    def interrupt(_: object) -> None:
        if len(pair.order()) >= 3:
            stop(signal.SIGINT, None)

    pair.run(stop=stop, report=interrupt)
    pair.first.run(resume=True)
    alone = {json.dumps(pair.first.record(name).get("paired")) for name in pair.first.published()}
    assert len(alone) == 2
    assert "null" in alone


def test_a_further_session_of_both_has_a_name_of_its_own(pair: Pair) -> None:
    pair.run()
    results = pair.run(add_session=True)
    assert [result.sessions for result in results] == [2, 2]
    assert len(pair.paired()) == 2
    order = pair.order()[8:]
    assert order[::2] == order[1::2]


def test_experiments_without_pairs_are_refused_before_anything_starts(pair: Pair) -> None:
    pair.second.write(measure={**TWICE, "repetitions": 3})
    with pytest.raises(InputError, match=r"would not run in pairs: spec\.measure\.repetitions is 2 there and 3 here"):
        pair.run()
    pair.second.write(measure=TWICE, scaling={"modes": ["weak"], "workers": [1, 3], "batch": {"perWorker": 4}})
    with pytest.raises(InputError, match=r"would not run in pairs: only .*/a/bundle has weak-2-1x2"):
        pair.run()
    pair.second.write(measure={**TWICE, "precision": {"efficiency": 0.01, "maxRepetitions": 5}})
    with pytest.raises(InputError, match=r"would not run in pairs: spec\.measure\.precision ends each experiment"):
        pair.run()
    pair.second.write(measure=TWICE)
    pair.second.bundle = pair.first.bundle
    with pytest.raises(InputError, match="is the bundle of both experiments"):
        pair.run()
    assert not pair.order()
    assert not pair.first.bundle.exists()


def test_experiments_with_other_sessions_are_refused(pair: Pair) -> None:
    pair.run()
    pair.first.run(add_session=True)
    with pytest.raises(InputError, match=r"would not run in pairs: .*/a/bundle is at session 3, it 2"):
        pair.run(add_session=True)


def test_begun_alone_and_resumed_in_turns_it_is_one_session_however_often(pair: Pair) -> None:
    stops = [StopRequest() for _ in range(3)]

    def after(count: int, stop: StopRequest) -> Callable[[object], None]:
        return lambda _: stop(signal.SIGINT, None) if len(pair.order()) >= count and not stop.requested else None

    pair.first.run(stop=stops[0], report=after(1, stops[0]))
    pair.run(resume=True, stop=stops[1], report=after(2, stops[1]))
    pair.run(resume=True)
    entries = LedgerFile(pair.first.bundle).ledger.of(Event.session, Event.resumed)
    assert len({entry.paired for entry in entries if entry.paired}) == 1
    assert len(pair.second.published()) == 4
