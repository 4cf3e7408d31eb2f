"""What users do to experiments, and clusters to jobs, turn by turn against an API server in memory."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from scalecurve_api.lifecycle import Clean, Start
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.spec.object_names import labels
from scalecurve_kube.resources import timestamp
from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.reconcile import job_probe, status_writer
from scalecurve_operator.reconcile.reconciler import _within_parallelism
from scalecurve_operator.settings import Settings
from tests.operator.attempt_remains import experiment_tree, pod, pod_name
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


def test_what_a_job_waits_for_is_written_once() -> None:
    """However long it is, and over how many lines."""
    world = World({}, ["one"])
    process = Process(world)
    settle(world, process, play=False)
    (job,) = world.store.of("jobs")
    waiting = pod(NAMESPACE, job["metadata"]["name"], 0, job["metadata"]["labels"], None)
    held = {"waiting": {"reason": "ImagePullBackOff", "message": "no such\n  image " * 100}}
    waiting["status"] = {"phase": "Pending", "containerStatuses": [{"name": "worker", "image": "i", "state": held}]}
    world.store.put(AT["pods"], waiting)
    settle(world, process, play=False)
    assert "no such image" in world.store.of("scalingtrials")[0]["status"]["message"]
    asked = len(process.cluster.requests)
    settle(world, process, play=False)
    assert {each.partition(" ")[0] for each in process.cluster.requests[asked:]} == {"GET"}


@pytest.mark.parametrize("began", ["2099-01-01T00:00:00Z", None])
def test_time_in_a_queue_is_no_time_of_a_trial(began: str | None) -> None:
    """A Job's clock starts when it is resumed; until it says so, when it was made."""
    world = World({}, ["one"])
    process = Process(world)
    settle(world, process, play=False)
    (job,) = world.store.of("jobs")
    metadata = {**job["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}
    world.store.put(AT["jobs"], {**job, "metadata": metadata, "status": {"startTime": began} if began else {}})
    settle(world, process, play=False)
    (trial,) = world.store.of("scalingtrials")[:1]
    reasons = [past["reason"] for past in trial["status"].get("history", [])]
    assert reasons == ([] if began else ["DeadlineExceeded"])


def begun(world: World, ago_s: float) -> dict[str, Any]:
    """The only job runs, and has for so long."""
    (job,) = world.store.of("jobs")
    if "ready" not in (job.get("status") or {}):
        world.play(job)
    (job,) = world.store.of("jobs")
    at = timestamp(time.time() - ago_s)
    return world.store.put(AT["jobs"], {**job, "status": {**job["status"], "startTime": at}})


def test_a_trial_whose_time_is_up_is_ended_with_its_last_lines() -> None:
    world = World({}, ["one"], deadlineSeconds=60)
    process = Process(world)
    settle(world, process, play=False)
    job = begun(world, 30)["metadata"]["name"]
    world.store.logs[pod_name(job, 0)] = "step 41\nstep 42\n"
    settle(world, process, play=False)
    assert len(world.store.of("jobs")) == 1, "not yet"
    begun(world, 61)
    settle(world, process, play=False)
    (trial,) = [each for each in world.store.of("scalingtrials") if each["status"].get("history")]
    assert trial["status"]["history"][0]["reason"] == "DeadlineExceeded"
    assert "deletionTimestamp" in world.store.objects[AT["jobs"], job]["metadata"]
    (kept,) = [each for each in world.store.of("configmaps") if each["metadata"]["name"].startswith(job)]
    outcome = Outcome.model_validate_json(kept["data"]["outcome.json"])
    assert outcome.log_tail == {pod_name(job, 0): ["step 41", "step 42"]}


def test_a_job_that_ends_as_its_time_is_up_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_probe, "_SILENCE_S", 3600.0)
    world = World({}, ["one"], deadlineSeconds=60)
    process = Process(world)
    settle(world, process, play=False)
    running = begun(world, 61)
    process.watch("jobs")
    world.play(running)  # and no watch has shown it yet
    asyncio.run(process.reconcile())
    settle(world, process)
    world.check()


def test_the_next_look_is_not_behind_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({}, ["one"], deadlineSeconds=60)
    process = Process(world)
    settle(world, process, play=False)
    begun(world, 40)
    process.watch("jobs")
    waits: list[float] = []
    (rec,) = process.reconciler.open.values()
    monkeypatch.setattr(rec, "settings", Settings(starting_seconds=3600.0))
    monkeypatch.setattr(rec, "queue", lambda key, after: waits.append(after))
    asyncio.run(process.reconcile())
    assert 0 < min(waits) <= 20.1


def test_an_experiment_whose_runner_is_missing_keeps_nobody_waiting() -> None:
    world = World({}, runner="Job")
    world.spec("one", runner="MPIJob")
    process = Process(world)
    settle(world, process)
    assert world.condition("one", "Admitted")["reason"] == "RunnerMissing"
    assert Key(NAMESPACE, "one") in process.enqueued, "it looks again, for nobody tells that the runner has come"
    assert world.status("two")["phase"] == "Succeeded"


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


@pytest.mark.parametrize("kind", ["ScalingTrial", "Job"])
def test_what_stands_in_the_way_of_a_trial_is_told(kind: str) -> None:
    """Left by an experiment that was deleted with --cascade=orphan, or made by hand."""
    world = World({}, ["one"])
    name = "one-weak-1-1x1-r1" + ("-a1" if kind == "Job" else "")
    tags = labels("one", "one-weak-1-1x1-r1", 1) if kind == "Job" else labels("one")
    plural = f"{kind.lower()}s"
    metadata = {"name": name, "namespace": NAMESPACE, "labels": tags}
    world.store.put(AT[plural], {"kind": kind, "metadata": metadata, "spec": {"completions": 1}})
    process = Process(world)
    settle(world, process, play=False)
    said = world.condition("one", "Stalled")
    assert (said["status"], said["reason"]) == ("True", "NameTaken")
    assert name in said["message"]
    world.store.remove(AT[plural], name)
    settle(world, process)
    assert world.status("one")["phase"] == "Succeeded"
    assert "Stalled" not in {each["type"] for each in world.status("one")["conditions"]}


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


def test_a_record_that_may_not_be_kept_is_told_and_kept_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota on ConfigMaps, say: the trial has ended, and waits for it."""
    monkeypatch.setattr(status_writer, "PUBLISH_INTERVAL_S", 0.0)
    world = World({}, ["one"])
    no = 'configmaps "x" is forbidden: exceeded quota: small, requested: count/configmaps=1'
    forbidden = (403, {"reason": "Forbidden", "message": no})
    world.store.refuse = lambda method, path: forbidden if "configmaps" in path else None
    process = Process(world)
    settle(world, process)
    said = world.condition("one", "Stalled")
    assert (said["status"], said["reason"]) == ("True", "Refused")
    assert said["message"] == f"one-weak-1-1x1-r1: the API server refused the request (403 Forbidden): {no}"
    assert len(world.store.of("jobs")) == 1, "nothing of it is given up"
    world.store.refuse = lambda method, path: None
    settle(world, process)
    world.check()


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


def test_an_experiment_whose_deletion_no_watch_has_told_is_let_go() -> None:
    world = World({})
    process = Process(world)
    settle(world, process, play=False)
    world.store.remove(AT["scalingexperiments"], "one")
    for _ in range(3):
        world.store.collect_garbage()
    for plural in PLURALS:
        process.list(plural)
    settle(world, process)
    assert list(process.cache.experiments) == [Key(NAMESPACE, "two")]
    assert world.status("two")["phase"] == "Succeeded"
    assert not world.store.of("jobs")


def test_attempts_under_way_take_the_room_of_those_that_are_named() -> None:
    collect, a, b, c = Clean("x"), Start("a", 1), Start("b", 1), Start("c", 1)
    assert _within_parallelism([collect, a, b], set()) == [collect, a, b]
    assert _within_parallelism([a, collect], {"a"}) == [a, collect], "named again, as long as its job is not seen"
    assert _within_parallelism([a, b], {"b"}) == [a, b]
    assert _within_parallelism([a], {"b"}) == [], "the one place is taken by another already"
    assert _within_parallelism([a, c], {"b"}) == [a]
    assert _within_parallelism([], {"b"}) == []
