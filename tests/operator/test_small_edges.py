"""Specs as they are read, Events, log lines and the liveness probe."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from scalecurve_operator import health
from scalecurve_operator.cache.object_cache import ExperimentSeen, Key
from scalecurve_operator.logs import JsonLines
from scalecurve_operator.reconcile.read_spec import NotRunnable, read_experiment
from scalecurve_operator.status.events import Notices
from tests.operator.api_in_memory import InMemory, Store
from tests.operator.left_behind import experiment_tree

KEY = Key("ns", "exp")


def stored(**spec: Any) -> dict[str, Any]:
    tree = experiment_tree(**spec)
    tree["metadata"] |= {"namespace": "ns", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}
    tree["metadata"] |= {"annotations": {"c": "d"}, "creationTimestamp": "2026-11-21T10:00:00Z", "generation": 3}
    return tree | {"status": {"phase": "Running"}}


def test_an_experiment_is_read_as_the_api_server_stores_it() -> None:
    found = read_experiment(stored(runner="PyTorchJob"))
    assert (found.metadata.name, found.spec.runner) == ("exp", "PyTorchJob")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"parallelism": 0}, ["spec.parallelism"]),
        ({"scaling": {"modes": ["weak"], "workers": [1, 2]}}, ["spec.scaling.batch"]),
        ({"matrix": {"precision": ["fp32", "fp7"]}}, ["precision", "fp7"]),
        ({"matrix": {"nonsense": [1]}}, ["nonsense"]),
        (
            {"scaling": {"modes": ["weak"], "workers": [-1, -2, -3, -4, -5]}},
            ["spec.scaling.workers[0]", "; and 2 more"],
        ),
    ],
)
def test_what_cannot_run_is_named(spec: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(NotRunnable) as refusal:
        read_experiment(stored(**spec))
    for part in said:
        assert part in str(refusal.value)


def test_a_part_that_is_missing_is_said_too() -> None:
    with pytest.raises(NotRunnable, match="spec"):
        read_experiment({name: value for name, value in stored().items() if name != "spec"})


class Posted:
    """Events over a few turns."""

    def __init__(self) -> None:
        self.store = Store()
        self.notices = Notices(InMemory(self.store))
        self.seen = ExperimentSeen("uid-e", 1, stored())

    def experiment(self, before: dict[str, object], now: dict[str, object]) -> None:
        asyncio.run(self.notices.experiment(KEY, self.seen, before, now))

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
        asyncio.run(posted.notices.trial(KEY, "exp-a-r1", "uid-t", "RankFailed", "attempt 1: " + "x" * 5000))
    ((kind, reason, message),) = posted.said
    assert (kind, reason) == ("Warning", "RankFailed")
    assert len(message.encode()) <= 1024
    posted.store.refuse = lambda method, path: (403, {"reason": "Forbidden", "message": "no"})
    asyncio.run(posted.notices.trial(KEY, "exp-a-r1", "uid-t", "RankFailed", "attempt 2"))
    assert len(posted.said) == 1


def line(message: str, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("scalecurve_operator.x", logging.WARNING, "f", 1, message, (), None)
    record.__dict__.update(more)
    text = JsonLines().format(record)
    assert "\n" not in text
    return dict(json.loads(text))


def test_a_log_line_names_its_experiment() -> None:
    found = line("team-a/resnet-50: started\nfoo", trial="t1", attempt=2)
    assert {name: found[name] for name in ("level", "namespace", "experiment", "trial", "attempt")} == {
        "level": "warning",
        "namespace": "team-a",
        "experiment": "resnet-50",
        "trial": "t1",
        "attempt": 2,
    }
    assert "experiment" not in line("holding the lease as a/b: yes")
    assert "ValueError: why" in line("no", exc_info=(ValueError, ValueError("why"), None))["exception"]


@pytest.mark.parametrize(
    ("unechoed", "turn", "answer", "leading", "why"),
    [
        ({}, 0, 1000, True, None),
        ({"jobs": (7, 1000 - health.ECHO_S)}, 0, 1000, True, None),
        ({"jobs": (7, 999 - health.ECHO_S)}, 0, 1000, True, "the watch of jobs has not shown version 7"),
        ({}, health.TURN_S + 1, 1000, True, "a turn has been running"),
        ({}, 0, 999 - health.ANSWER_S, True, "the API server has not answered"),
        ({}, 0, 999 - health.ANSWER_S, False, None),
    ],
)
def test_alive_means_progress(
    unechoed: dict[str, tuple[int, float]], turn: float, answer: float, leading: bool, why: str | None
) -> None:
    found = health.sick(unechoed, turn, answer, leading, 1000.0)
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")
