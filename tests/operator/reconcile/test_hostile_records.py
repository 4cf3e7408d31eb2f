"""Records that no worker writes, through the whole controller: each costs its own trial, and no other anything."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from scalecurve_api.record.envelope import digest
from scalecurve_api.record.log_lines import frame
from scalecurve_operator.reconcile import reconciler as reconciling
from scalecurve_operator.reconcile.judge_process import JudgeUnavailableError
from tests.operator.attempt_remains import announced
from tests.operator.hostile import PAYLOADS
from tests.operator.simulated_cluster import JUDGES, Process, World, settle

HUGE = 10**30


class HostileWorld(World):
    """Where every pod of experiment ``one`` leaves what it was not asked for."""

    judges = JUDGES

    def __init__(self, payload: Callable[[str, int], bytes] | None, **summary: Any) -> None:
        self.payload, self.summary = payload, summary
        super().__init__({})

    def left(self, trial: str, job: str, attempt: int, *, good: bool) -> tuple[str, str]:
        if not trial.startswith("one-"):
            return super().left(trial, job, attempt, good=good)
        spec = self.trials[trial]
        if self.payload is None:
            log, message = super().left(trial, job, attempt, good=good)
            wire = json.loads(message)
            wire["summary"] |= self.summary
            return log, json.dumps(wire)
        payload = self.payload(spec.name, attempt)
        message = json.loads(announced(spec, None, attempt)) | {"sha256": digest(payload)}
        return "\n".join(["step 1", *frame(payload), ""]), json.dumps(message)

    def trial_statuses(self, experiment: str) -> list[dict[str, Any]]:
        """Of an experiment's trials."""
        return [
            trial["status"]
            for trial in self.store.of("scalingtrials")
            if trial["metadata"]["name"].startswith(f"{experiment}-")
        ]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def soon(_: float) -> None:
        return None

    monkeypatch.setattr(asyncio, "sleep", soon)


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_hostile_record_ends_its_own_trial_and_holds_no_place(name: str) -> None:
    world = HostileWorld(PAYLOADS[name])
    process = Process(world)
    for _ in range(4):
        settle(world, process)
    assert world.status("one")["phase"] == "Failed", "no trial succeeded"
    assert world.status("two")["phase"] == "Succeeded"
    for status in world.trial_statuses("one"):
        assert (status["phase"], status["reason"]) == ("Invalid", "RecordsUnreadable")
    assert not world.store.of("jobs")


def test_integers_beyond_int64_in_the_summary_do_not_reach_the_api_server() -> None:
    world = HostileWorld(None, samples=HUGE)
    process = Process(world)
    for _ in range(4):
        settle(world, process)
    assert world.status("one")["phase"] == "Succeeded", "its record is good"
    assert world.status("two")["phase"] == "Succeeded"
    assert not any("summary" in status for status in world.trial_statuses("one"))


@pytest.mark.parametrize(
    "error", [RecursionError("too deep"), MemoryError(), OverflowError("1e999"), AttributeError("x"), KeyError("y")]
)
def test_a_collection_that_keeps_failing_ends_the_attempt(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Whatever the cause is: this rule holds for inputs that nobody has thought of yet."""
    collect, calls = reconciling.actions.collect_attempt, 0

    async def fail(cluster: Any, payload_budget: Any, attempt: Any) -> Any:
        nonlocal calls
        if attempt.request.experiment == "one" and attempt.unreadable is None:
            calls += 1
            raise error
        return await collect(cluster, payload_budget, attempt)

    monkeypatch.setattr(reconciling.actions, "collect_attempt", fail)
    world = HostileWorld(None)
    process = Process(world)
    for _ in range(4):
        settle(world, process)
    assert world.status("two")["phase"] == "Succeeded"
    for status in world.trial_statuses("one"):
        assert (status["phase"], status["reason"]) == ("Invalid", "RecordsUnreadable")
        assert type(error).__name__ in status["message"]
    assert calls == 2 * 2 * reconciling.actions.COLLECTIONS, "two trials of two attempts"


@pytest.mark.parametrize("starved", [3, 10**9])
def test_a_busy_operator_judges_later_and_not_without_end(monkeypatch: pytest.MonkeyPatch, starved: int) -> None:
    """It says nothing of the record at first; for ever, it would hold the place of everybody in the pool."""
    collect, calls = reconciling.actions.collect_attempt, 0

    async def busy(cluster: Any, payload_budget: Any, attempt: Any) -> Any:
        nonlocal calls
        if attempt.request.experiment == "one" and attempt.unreadable is None:
            calls += 1
            if calls <= starved:
                raise JudgeUnavailableError("no answer yet, after 0.1 s of processor time")
        return await collect(cluster, payload_budget, attempt)

    monkeypatch.setattr(reconciling.actions, "collect_attempt", busy)
    world = HostileWorld(None)
    process = Process(world)
    for _ in range(20):
        settle(world, process)
    assert world.status("two")["phase"] == "Succeeded"
    assert not world.store.of("jobs")
    if starved == 3:
        assert world.status("one")["phase"] == "Succeeded"
        return
    for status in world.trial_statuses("one"):
        assert (status["phase"], status["reason"]) == ("Invalid", "RecordsUnreadable")
        assert "20 times: the operator has no process to judge it in: no answer yet" in status["message"]
    assert calls == 2 * 2 * reconciling.actions.UNAVAILABLE, "two trials of two attempts"


def test_while_a_collection_is_repeated_the_status_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(cluster: Any, payload_budget: Any, attempt: Any) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr(reconciling.actions, "collect_attempt", fail)
    monkeypatch.setattr(reconciling.actions, "COLLECTIONS", 10**9)
    monkeypatch.setattr(reconciling.status_writer, "PUBLISH_INTERVAL_S", 0.0)
    world = HostileWorld(None)
    settle(world, Process(world))
    stalled = world.condition("one", "Stalled")
    assert stalled["reason"] == "RecordsUnreadable"
    assert "RecursionError: too deep" in stalled["message"]


@pytest.mark.parametrize("status", [500, 429, 403])
def test_what_the_api_server_cannot_do_is_no_fault_of_the_record(status: int) -> None:
    world = HostileWorld(None)
    process = Process(world)
    world.store.refuse = lambda method, path: (status, {"message": "not now"}) if "configmaps/one-" in path else None
    settle(world, process)
    assert [trial["phase"] for trial in world.trial_statuses("one")] == ["Running"]
    world.store.refuse = lambda method, path: None
    for _ in range(4):
        settle(world, process)
    assert world.status("one")["phase"] == "Succeeded"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_the_api_server_will_never_take_ends_the_attempt(status: int) -> None:
    world = HostileWorld(None)
    process = Process(world)

    refusals: Counter[str] = Counter()

    def refuse(method: str, path: str) -> tuple[int, Any] | None:
        if "configmaps/one-" not in path:
            return None
        record = path.partition("-record-")[0]
        refusals[record] += 1
        return (status, {"message": "never"}) if refusals[record] <= reconciling.actions.COLLECTIONS else None

    world.store.refuse = refuse
    for _ in range(4):
        settle(world, process)
    assert world.status("two")["phase"] == "Succeeded"
    for trial in world.trial_statuses("one"):
        assert (trial["phase"], trial["reason"]) == ("Invalid", "RecordsUnreadable")
        assert "never" in trial["message"]
