"""Events that the operator posts."""

from __future__ import annotations

import asyncio

from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.status.events import experiment_ended, trial_failed
from tests.operator.api_in_memory import InMemory, Store

KEY = Key("ns", "exp")


class Posted:
    """Events over a few reconciles."""

    def __init__(self) -> None:
        self.store = Store()
        self.cluster = InMemory(self.store)

    def experiment(self, before: dict[str, object], now: dict[str, object]) -> None:
        asyncio.run(experiment_ended(self.cluster, KEY, "uid-e", before, now))

    @property
    def said(self) -> list[tuple[str, str, str]]:
        return [(each["type"], each["reason"], each["message"]) for each in self.store.of("events")]


def test_an_event_for_the_end_that_people_wait_for() -> None:
    posted = Posted()
    posted.experiment({}, {"phase": "Pending"})
    posted.experiment({"phase": "Pending"}, {"phase": "Running", "total": 4})
    posted.experiment({"phase": "Running", "startedAt": "x"}, {"phase": "Suspended"})
    posted.experiment({"phase": "Suspended", "startedAt": "x"}, {"phase": "Running", "total": 4})
    posted.experiment({"phase": "Running"}, {"phase": "Failed", "message": "no number"})
    posted.experiment({"phase": "Failed"}, {"phase": "Failed", "message": "no number"})
    assert posted.said == [("Warning", "Failed", "no number")]
    (event,) = posted.store.of("events")
    assert event["involvedObject"]["uid"] == "uid-e"
    assert event["involvedObject"]["kind"] == "ScalingExperiment"


def test_the_same_is_said_once_and_a_refusal_stops_nothing() -> None:
    posted = Posted()
    for _ in range(2):
        asyncio.run(trial_failed(posted.cluster, KEY, "exp-a-r1", "uid-t", "RankFailed", "attempt 1: " + "x" * 5000))
    ((kind, reason, message),) = posted.said
    assert (kind, reason) == ("Warning", "RankFailed")
    assert len(message.encode()) <= 1024
    posted.store.refuse = lambda method, path: (403, {"reason": "Forbidden", "message": "no"})
    asyncio.run(trial_failed(posted.cluster, KEY, "exp-a-r1", "uid-t", "RankFailed", "attempt 2"))
    assert len(posted.said) == 1
