"""Sessions on a cluster: apart in time, on other nodes, in nobody's way; and repetitions that end when it is enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves import progress
from scalecurve.curves.compute import scaling
from scalecurve_api.planning.precision import LEAST
from scalecurve_kube.resources import unix_time
from tests.cluster.applied import Applied, Object, manifest
from tests.cluster.cli_desk import Desk
from tests.cluster.operator_process import OperatorProcess
from tests.cluster.played_jobs import MEASURE
from tests.waiting import eventually
from tools.devcluster.rest import ApiError
from tools.devcluster.tier import Tier

EVERY_H = 0.005


@pytest.fixture
def operator(tier: Tier, namespace: str) -> Iterator[OperatorProcess]:
    with OperatorProcess(tier, namespace, settings={"POOLS": "default=1"}) as running:
        yield running


def measured(namespace: str, name: str = "e", **measure: object) -> Object:
    tree = manifest(namespace, name=name)
    tree["spec"]["measure"] = {**MEASURE, **measure}
    return tree


def condition(applied: Applied, kind: str) -> Object:
    return next((entry for entry in applied.status.get("conditions") or () if entry["type"] == kind), {})


def sessions_pulled(bundle: Path) -> list[int]:
    return sorted(trial.spec.session for trial in open_bundle(bundle).trials if trial.record is not None)


def session_of(trial: str) -> int:
    return 2 if "-s2-" in trial else 1


def test_sessions_are_apart_in_time_and_on_other_nodes_and_give_their_place_away(
    tier: Tier, namespace: str, operator: OperatorProcess, tmp_path: Path
) -> None:
    first = Applied.apply(tier, measured(namespace, sessions={"count": 2, "everyHours": EVERY_H}))
    desk = Desk(tier, tmp_path, namespace)
    eventually(lambda: condition(first, "Admitted").get("reason") == "WaitingForSession", "the end of session 1")
    assert condition(first, "Admitted")["message"].startswith("session 2 of 2 begins at ")
    assert first.status["progress"] == "2/4"
    desk("pull", "e", "--into", "b")
    assert sessions_pulled(tmp_path / "b") == [0, 0], "the first session, while the second is to come"
    meanwhile = Applied.apply(tier, manifest(namespace, name="meanwhile"))
    assert meanwhile.final()["phase"] == "Succeeded"
    assert first.status["phase"] == "Running", "it still waits"
    operator.kill()
    operator.start()
    operator.ready()
    assert first.final()["phase"] == "Succeeded"
    trials = first.trials()
    began: dict[int, list[float]] = {1: [], 2: []}
    nodes: dict[int, set[str]] = {1: set(), 2: set()}
    for name, status in trials.items():
        began[session_of(name)].append(unix_time(status["startedAt"]))
        nodes[session_of(name)].update(status["nodes"])
    assert [len(times) for times in began.values()] == [2, 2]
    assert min(began[2]) - min(began[1]) >= EVERY_H * 3600 - 1
    assert len(nodes[1]) == len(nodes[2]) == 2, "the counts of a session nest"
    assert not nodes[1] & nodes[2], "four nodes: the second session takes the other two"
    desk("pull", "e", "--into", "b")
    assert sessions_pulled(tmp_path / "b") == [0, 0, 1, 1], "the second is added to the same bundle"
    assert desk.local("verify", "b").code == 0
    (series,) = scaling([open_bundle(tmp_path / "b")]).series
    assert "over 2 sessions on 4 machines" in series.headline


def test_the_baseline_is_not_always_on_the_same_node(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    applied = Applied.apply(tier, measured(namespace, repetitions=3))
    assert applied.final()["phase"] == "Succeeded"
    of_one = {name: status["nodes"] for name, status in applied.trials().items() if "-1-1x1-" in name}
    assert len({node for nodes in of_one.values() for node in nodes}) == 2, of_one
    assert len({node for status in applied.trials().values() for node in status["nodes"]}) == 2, "and it nests"


def test_repetitions_end_when_the_efficiency_is_known(
    tier: Tier, namespace: str, operator: OperatorProcess, tmp_path: Path
) -> None:
    precise = {"efficiency": 0.5, "maxRepetitions": 9}
    applied = Applied.apply(tier, measured(namespace, repetitions=2, precision=precise))
    assert applied.final()["phase"] == "Succeeded"
    assert applied.status["progress"] == f"{2 * LEAST}/{2 * LEAST}"
    assert len(applied.trials()) == 2 * LEAST
    desk = Desk(tier, tmp_path, namespace)
    shown = desk("status", "e", "-o", "json").json
    assert shown["finished"], "what was not needed is not missing"
    desk("pull", "e", "--into", "b")
    assert progress.status(open_bundle(tmp_path / "b")).finished


@pytest.mark.parametrize(
    ("measure", "field"),
    [
        ({"sessions": {"count": 0}}, "spec.measure.sessions.count"),
        ({"precision": {"efficiency": 1, "maxRepetitions": 5}}, "spec.measure.precision.efficiency"),
        ({"precision": {"efficiency": 0.01}}, "spec.measure.precision.maxRepetitions"),
    ],
)
def test_the_api_server_refuses_what_no_engine_would_run(
    tier: Tier, namespace: str, measure: dict[str, object], field: str
) -> None:
    with pytest.raises(ApiError, match=field):
        Applied.apply(tier, measured(namespace, **measure))
