"""Users who delete, suspend and cancel at any moment, while the API server refuses requests and watches break."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scalecurve_api.spec.object_names import EXPERIMENT_LABEL
from scalecurve_operator.reconcile import job_probe
from tests.examples import examples
from tests.operator.simulated_cluster import AT, NAMESPACE, Process, World

TURNS = 300
REFUSALS = [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)


def some_trial(world: World, chance: random.Random) -> None:
    """A trial is deleted; its job follows it sooner or later."""
    if found := world.store.of("scalingtrials"):
        world.store.remove(AT["scalingtrials"], chance.choice(found)["metadata"]["name"])


def some_job(world: World, chance: random.Random) -> None:
    """A job is deleted, in whatever state."""
    if found := world.store.of("jobs"):
        world.store.remove(AT["jobs"], chance.choice(found)["metadata"]["name"])


def an_experiment(world: World, chance: random.Random) -> None:
    """An experiment is deleted and applied anew at once."""
    known = world.store.objects[AT["scalingexperiments"], chance.choice(["one", "two"])]
    world.store.remove(AT["scalingexperiments"], known["metadata"]["name"])
    metadata = {"name": known["metadata"]["name"], "namespace": NAMESPACE, "generation": 1}
    world.store.put(AT["scalingexperiments"], {**known, "metadata": metadata, "status": {}})


def suspended(world: World, chance: random.Random) -> None:
    """An experiment is suspended, or goes on."""
    name = chance.choice(["one", "two"])
    now = world.store.objects[AT["scalingexperiments"], name]["spec"].get("suspend", False)
    world.spec(name, suspend=not now)


MEDDLING = [some_trial, some_job, an_experiment, suspended]


def meddle(world: World, chance: random.Random, wishes: list[Callable[..., None]], troubles: float) -> None:
    """Wishes for a while, and then as long as it takes, with one operator that may be killed."""
    process, busy = Process(world), True

    def trouble() -> bool:
        return busy and chance.random() < troubles

    def refuse(method: str, path: str) -> tuple[int, dict[str, str]] | None:
        if path.endswith("/log") or not trouble():
            return None
        status, reason = chance.choice(REFUSALS)
        return status, {"reason": reason, "message": "no"}

    world.store.refuse = refuse
    with asyncio.Runner() as runner:
        for turn in range(TURNS):
            busy = turn < TURNS / 3
            if busy and chance.random() < 0.2:
                chance.choice(wishes)(world, chance)
            if turn == TURNS // 3:
                for name in ("one", "two"):
                    world.spec(name, suspend=False)
            if busy and chance.random() < troubles / 2:
                process = Process(world)
            process.watch_some(chance, trouble, 0.6 if busy else 1.0)
            runner.run(process.reconcile())
            world.go_on(chance, 0.6)
            if not busy and turn > TURNS / 3 + 2 and over(world):
                break
    for _ in range(3):
        world.store.collect_garbage()


def over(world: World) -> bool:
    ends = [(each.get("status") or {}).get("phase") for each in world.store.of("scalingexperiments")]
    return all(end in ("Succeeded", "Failed", "Cancelled") for end in ends) and not world.store.of("jobs")


def check(world: World) -> None:
    """Nothing runs; every trial that is there has ended, once for each attempt, and its records are its own."""
    assert over(world), [each.get("status") for each in world.store.of("scalingexperiments")]
    assert not world.store.of("pods")
    assert not world.store.of("services")
    kept = {each["metadata"]["name"]: each for each in world.store.of("configmaps")}
    for trial in world.store.of("scalingtrials"):
        status = trial["status"]
        attempts = [past["attempt"] for past in status["history"]]
        assert attempts == sorted(set(attempts))
        assert status["phase"] == status["history"][-1]["phase"]
        for name in status["record"]["configMaps"]:
            assert kept[name]["metadata"]["ownerReferences"][0]["uid"] == trial["metadata"]["uid"]
    for experiment in world.store.of("scalingexperiments"):
        status, name = experiment["status"], experiment["metadata"]["name"]
        begun = [t for t in world.store.of("scalingtrials") if t["metadata"]["labels"][EXPERIMENT_LABEL] == name]
        assert status["done"] == status["total"]
        assert sum(status["counts"].values()) == status["total"]
        assert all(t["metadata"]["ownerReferences"][0]["uid"] == experiment["metadata"]["uid"] for t in begun)


@settings(max_examples=examples(8, nightly=15))
@given(st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3]))
@example(1, 0, 0.3)
def test_whatever_users_do_everything_ends(parallelism: int, seed: int, troubles: float) -> None:
    world, chance = World({}, parallelism=parallelism), random.Random(seed)
    meddle(world, chance, MEDDLING, troubles)
    check(world)


@settings(max_examples=examples(8, nightly=15))
@given(st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3]))
@example(2, 10916, 0.3)
@example(1, 2312748802, 0.3)
def test_what_is_cancelled_ends_cancelled(parallelism: int, seed: int, troubles: float) -> None:
    """While it is pending, suspended, starting, running or being collected."""
    world, chance = World({}, parallelism=parallelism), random.Random(seed)
    at, turn = chance.randrange(30), 0

    def cancel(world: World, chance: random.Random) -> None:
        nonlocal turn
        turn += 1
        if turn == at:
            world.spec("one", cancel=True)

    meddle(world, chance, [cancel, suspended], troubles)
    check(world)
    assert world.status("two")["phase"] == "Succeeded"
