"""Who may run trials now: the rule, and what the operator makes of it over statuses and changes of mind."""

from __future__ import annotations

from typing import Any

from scalecurve_operator.admission import ADMITTED, Admission
from scalecurve_operator.cache.cached_objects import CachedExperiment, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.settings import Settings
from scalecurve_operator.status import render as statuses
from tests.operator.attempt_remains import experiment, experiment_tree


class Desk:
    """Experiments of one pool as `Admission` sees them; the status of each says what it was last told."""

    def __init__(self, slots: int = 1) -> None:
        self.settings, self.cache = Settings(pools={"default": slots, "other": 1}), ObjectCache()
        self.admission = Admission(self.settings, self.cache)

    def add(self, name: str, second: int, namespace: str = "ns", **spec: Any) -> Key:
        tree = experiment_tree(name, **spec)
        created = f"2026-11-21T10:00:{second:02}Z"
        tree["metadata"] |= {"namespace": namespace, "uid": name, "resourceVersion": "1", "creationTimestamp": created}
        key = self.cache.upsert_experiment(tree)
        assert key is not None
        return key

    def seen(self, key: Key) -> CachedExperiment:
        found = self.cache.experiments[key].experiment
        assert found is not None
        return found

    def spec(self, key: Key, **changes: Any) -> None:
        self.seen(key).body["spec"] |= changes

    def turn(self, key: Key, busy: bool = False) -> tuple[bool, str]:
        """Ask, write the condition; (may start, the condition's reason)."""
        seen, jobs = self.seen(key), {"a job": object()} if busy else {}
        self.cache.experiments[key].jobs = jobs  # type: ignore[assignment]
        spec = experiment(key.name, **seen.body["spec"]).spec
        may = not spec.suspend and self.admission.admit(key, seen, busy)
        condition = self.admission.condition(key, spec)
        seen.body["status"] = {
            "phase": "Running",
            "conditions": statuses.conditions(seen.status, [condition], 1, 0.0),
        }
        return may, condition["reason"]

    def restart(self) -> None:
        self.admission = Admission(self.settings, self.cache)


def test_the_older_goes_first_and_the_next_when_it_leaves() -> None:
    desk = Desk()
    a, b, c = (desk.add(name, second) for second, name in enumerate("abc"))
    assert desk.turn(a) == (True, "SlotHeld")
    assert desk.turn(c) == (False, "WaitingForPool")
    assert desk.turn(b) == (False, "WaitingForPool")
    assert "held by ns/a; 1 ahead" in desk.admission.condition(c, experiment().spec)["message"]
    desk.restart()
    assert desk.turn(c) == (False, "WaitingForPool")
    assert desk.turn(a, busy=True) == (True, "SlotHeld")
    assert desk.admission.leave(a) == [b], "the one whose turn it is"
    assert desk.turn(c) == (False, "WaitingForPool")
    assert desk.turn(b) == (True, "SlotHeld")


def test_who_was_let_in_stays_over_a_restart_also_before_its_first_job() -> None:
    desk = Desk()
    old, new = desk.add("old", 0), desk.add("new", 1)
    assert desk.admission.admit(new, desk.seen(new), False) is False
    desk.admission.leave(old)
    assert desk.turn(new) == (True, "SlotHeld")
    desk.restart()
    assert desk.turn(old) == (False, "WaitingForPool")
    assert desk.turn(new) == (True, "SlotHeld")


def test_a_suspended_one_keeps_its_place_while_its_job_runs_and_gives_it_away_then() -> None:
    desk = Desk()
    a, b = desk.add("a", 0), desk.add("b", 1)
    assert desk.turn(a) == (True, "SlotHeld")
    desk.spec(a, suspend=True)
    assert desk.turn(a, busy=True) == (False, "Suspended")
    assert desk.turn(b) == (False, "WaitingForPool")
    assert desk.turn(b) == (False, "WaitingForPool")
    assert desk.turn(a, busy=False) == (False, "Suspended")
    assert desk.admission.leave(a) == [b]
    assert desk.turn(b) == (True, "SlotHeld")
    desk.spec(a, suspend=False)
    assert desk.turn(a) == (False, "WaitingForPool"), "it queues again"
    assert desk.admission.leave(b) == [a]
    assert desk.turn(a) == (True, "SlotHeld")


def test_who_changes_pools_waits_no_longer_in_the_first() -> None:
    desk = Desk()
    a, b, c = (desk.add(name, second) for second, name in enumerate("abc"))
    desk.turn(a)
    assert desk.turn(b) == (False, "WaitingForPool")
    desk.spec(b, pool="other")
    assert desk.turn(b) == (True, "SlotHeld")
    assert desk.admission.leave(a) == [c]
    assert desk.turn(c) == (True, "SlotHeld")


def test_who_has_ended_but_whose_pods_still_run_is_in_the_way() -> None:
    """Also after a restart."""
    desk = Desk()
    a, b = desk.add("a", 0), desk.add("b", 1)
    desk.turn(a)
    desk.seen(a).body["status"].update(phase="Failed", total=1)
    desk.cache.experiments[a].jobs["a job"] = object()  # type: ignore[assignment]
    desk.restart()
    assert desk.turn(b) == (False, "WaitingForPool")
    desk.cache.experiments[a].jobs.clear()
    desk.restart()
    assert desk.turn(b) == (True, "SlotHeld")


def test_namespaces_take_turns_also_over_a_restart() -> None:
    desk = Desk()
    greedy = [desk.add(f"g{index}", index) for index in range(3)]
    late = desk.add("late", 9, namespace="polite")
    assert desk.turn(greedy[0]) == (True, "SlotHeld")
    assert desk.turn(late) == (False, "WaitingForPool")
    assert "held by ns/g0; 0 ahead" in desk.admission.condition(late, experiment().spec)["message"]
    assert desk.admission.leave(greedy[0]) == [late]
    desk.seen(greedy[0]).body["status"] |= {"phase": "Succeeded", "total": 1, "startedAt": "2026-11-21T10:00:20Z"}
    desk.restart()
    assert desk.turn(greedy[1]) == (False, "WaitingForPool")
    assert desk.turn(late) == (True, "SlotHeld")


def test_unlisted_pools_share_one_place() -> None:
    desk = Desk()
    mine, own = desk.add("a", 0, pool="mine"), desk.add("b", 1, pool="own")
    assert desk.turn(mine) == (True, "SlotHeld")
    assert desk.turn(own) == (False, "WaitingForPool")
    assert desk.turn(desk.add("c", 2)) == (True, "SlotHeld"), "listed ones have their own"
    assert desk.admission.leave(mine) == [own]


def test_a_condition_is_one_of_kubernetes() -> None:
    desk = Desk()
    a = desk.add("a", 0)
    desk.turn(a)
    (condition,) = desk.seen(a).status["conditions"]
    assert (condition["type"], condition["status"], condition["lastTransitionTime"]) == (
        ADMITTED,
        "True",
        "1970-01-01T00:00:00Z",
    )
