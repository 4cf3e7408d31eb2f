"""What users do to experiments, and clusters to jobs, turn by turn against an API server in memory."""

from __future__ import annotations

import asyncio
import json
import random
import time

import pytest

from scalecurve_api.lifecycle import Clean, Start
from scalecurve_api.planning.precision import LEAST
from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.reconcile import job_probe, status_writer
from scalecurve_operator.reconcile.reconciler import _limit_parallelism
from tests.operator.attempt_remains import experiment_tree
from tests.operator.simulated_cluster import AT, NAMESPACE, PLURALS, Process, World, settle


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look closer at every job in every turn, and ask for it."""
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)


def test_a_suspended_experiment_lets_its_trial_end_and_gives_its_place_away() -> None:
    world = World({})
    process = Process(world)
    settle(world, process, play=False)
    assert [each["metadata"]["name"] for each in world.store.of("jobs")] == ["one-weak-1-1x1-r1-a1"]
    world.spec("one", suspend=True)
    settle(world, process, play=False)
    assert len(world.store.of("jobs")) == 1, "its trial still runs"
    settle(world, process)
    assert world.status("one")["phase"] == "Suspended"
    assert len(world.store.of("scalingtrials")) == 1 + 2
    assert world.status("two")["phase"] == "Succeeded"
    assert Key(NAMESPACE, "two") in process.enqueued
    world.spec("one", suspend=False)
    settle(world, process)
    world.check()


def test_a_job_has_the_values_of_its_point_in_its_command() -> None:
    command = ["train.py", "--batch={batchPerWorker}", "{seqLen}", "{{workers}}"]
    workload = {"program": "custom", "command": command, "env": {"OUT": "/{trialName}"}, "parameters": {"seqLen": 512}}
    world = World({}, ["one"], workload=workload)
    settle(world, Process(world), play=False)
    (job,) = world.store.of("jobs")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    sent = json.loads(variables["SCALECURVE_TRIAL"])
    batch = sent["point"]["batchPerWorker"]
    assert sent["workload"]["command"] == ["train.py", f"--batch={batch}", "512", "{workers}"]
    assert variables["OUT"] == f"/{sent['name']}"
    (trial,) = world.store.of("scalingtrials")
    assert trial["spec"]["workload"]["command"] == command, "what the record will say is what the user wrote"


def test_an_experiment_that_was_deleted_and_made_anew_begins_anew() -> None:
    """The job of the one before runs on until the garbage collector comes to it."""
    world = World({})
    process = Process(world)
    settle(world, process, play=False)
    before = world.store.of("scalingexperiments")[0]
    world.store.remove(AT["scalingexperiments"], "one")
    metadata = {"name": "one", "namespace": NAMESPACE, "generation": 1}
    world.store.put(AT["scalingexperiments"], {**before, "metadata": metadata, "status": {}})
    world.store.created.clear()
    settle(world, process)
    world.check()


def test_an_experiment_that_this_operator_does_not_understand_holds_up_nobody() -> None:
    """Begun by a newer operator, say: nobody can collect what runs."""
    world = World({})
    process = Process(world)
    settle(world, process, play=False)
    world.spec("one", parallelism=0)
    settle(world, process)
    assert world.condition("one", "Accepted")["reason"] == "InvalidSpec"
    assert world.status("two")["phase"] == "Succeeded"
    assert not world.store.of("jobs")


def test_experiments_of_one_name_in_two_namespaces_do_not_meet() -> None:
    """Their trials and jobs have the same names, too; a pool they share."""
    world = World({}, ["one"], pool="a")
    for namespace, pool in (("another", "b"), ("third", "a")):
        tree = experiment_tree("one", pool=pool)
        tree["metadata"] |= {"namespace": namespace, "generation": 1}
        world.store.put(AT["scalingexperiments"].replace(f"/{NAMESPACE}/", f"/{namespace}/"), tree)
    process = Process(world)
    keys = [Key(namespace, "one") for namespace in (NAMESPACE, "another", "third")]
    for _ in range(3):
        for key in keys:
            asyncio.run(process.reconciler.reconcile(key))
    made = {each["metadata"]["namespace"]: each["metadata"]["name"] for each in world.store.of("jobs")}
    assert made == {NAMESPACE: "one-weak-1-1x1-r1-a1", "another": "one-weak-1-1x1-r1-a1"}
    waits = {key.namespace for key in keys if not process.cache.experiments[key].jobs}
    assert waits == {"third"}, "the pool is the cluster's"
    world.store.remove(AT["scalingexperiments"], "one")
    process.watch("scalingexperiments")
    asyncio.run(process.reconciler.reconcile(keys[0]))
    assert process.cache.experiments[keys[1]].experiment is not None


def unwatched(world: World, process: Process) -> None:
    """All that went is really gone, and the watches begin anew: of what was deleted meanwhile they tell nothing."""
    for _ in range(3):
        world.store.collect_garbage()
    for plural in PLURALS:
        process.list(plural)


@pytest.mark.parametrize("until", ["one-weak-1-1x1-r1-a1", "one-weak-1-1x1-r1-a2", "one-weak-2-2x1-r1-a1"])
def test_an_experiment_made_anew_while_nobody_watched_begins_anew(until: str) -> None:
    """Its trials and its job are of the one before, and only the operator still believes in them."""
    world = World({"weak-1-1x1": ["bad"]})
    process = Process(world)
    for _ in range(50):
        if (AT["jobs"], until) in world.store.objects:
            break
        for plural in PLURALS:
            process.watch(plural)
        asyncio.run(process.reconcile())
        world.go_on(random.Random(0), float((AT["jobs"], until) not in world.store.objects))
    for plural in PLURALS:
        process.watch(plural)
    world.script = {}
    before = world.store.objects[AT["scalingexperiments"], "one"]
    world.store.remove(AT["scalingexperiments"], "one")
    unwatched(world, process)
    metadata = {"name": "one", "namespace": NAMESPACE, "generation": 1}
    world.store.put(AT["scalingexperiments"], {**before, "metadata": metadata, "status": {}})
    world.store.created.clear()
    unwatched(world, process)
    settle(world, process)
    settle(world, process)
    assert [world.status(name)["phase"] for name in ("one", "two")] == ["Succeeded", "Succeeded"]
    assert not process.cache.experiments[Key(NAMESPACE, "one")].jobs


def test_attempts_under_way_take_the_room_of_those_that_are_named() -> None:
    collect, a, b, c = Clean("x"), Start("a", 1), Start("b", 1), Start("c", 1)
    assert _limit_parallelism([collect, a, b], set()) == [collect, a, b]
    assert _limit_parallelism([a, collect], {"a"}) == [a, collect], "named again, as long as its job is not seen"
    assert _limit_parallelism([a, b], {"b"}) == [a, b]
    assert _limit_parallelism([a], {"b"}) == [], "the one place is taken by another already"
    assert _limit_parallelism([a, c], {"b"}) == [a]
    assert _limit_parallelism([], {"b"}) == []


HOURS = {"sessions": {"count": 2, "everyHours": 1}, "repetitions": 1}


def test_the_next_session_waits_for_its_time_and_the_place_in_the_pool_is_given_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(status_writer, "PUBLISH_INTERVAL_S", 0.0)
    world = World({}, measure=HOURS)
    process = Process(world)
    settle(world, process)
    first = [each["metadata"]["name"] for each in world.store.of("scalingtrials")]
    assert not [name for name in first if "-s2-" in name]
    assert len(first) == 2 * 2, "the other experiment ran meanwhile"
    assert world.status("one")["phase"] == "Running"
    assert world.status("one")["progress"] == "2/4"
    waiting = world.condition("one", "Admitted")
    assert (waiting["status"], waiting["reason"]) == ("False", "WaitingForSession")
    assert waiting["message"].startswith("session 2 of 2 begins at ")
    restarted = Process(world)
    settle(world, restarted)
    assert world.status("one")["progress"] == "2/4", "a new operator waits, too"
    now += 3601
    for _ in range(2):
        settle(world, restarted)
    assert world.status("one")["phase"] == world.status("two")["phase"] == "Succeeded"
    world.check()


def test_repetitions_end_when_the_efficiency_is_known() -> None:
    world = World({}, ["one"], measure={"repetitions": 2, "precision": {"efficiency": 0.5, "maxRepetitions": 9}})
    process = Process(world)
    for _ in range(6):
        settle(world, process)
    assert world.status("one")["phase"] == "Succeeded"
    assert world.status("one")["progress"] == f"{2 * LEAST}/{2 * LEAST}"
    assert len(world.store.of("scalingtrials")) == 2 * LEAST


def test_each_session_has_the_hours_that_an_experiment_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    world = World({}, ["one"], measure={"sessions": {"count": 2, "everyHours": 500}, "repetitions": 1})
    process = Process(world)
    settle(world, process)
    now += 501 * 3600
    for _ in range(2):
        settle(world, process)
    assert world.status("one")["phase"] == "Succeeded"
