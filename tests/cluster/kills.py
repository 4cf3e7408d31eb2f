"""kill -9 of an operator at its API calls, and what must be true of an experiment all the same.

Each call that a `Sweep` has not met yet kills the operator twice: before the API server sees it, and after the server
has acted and before the operator knows. The operator is started anew after each, as a kubelet would; since every call
kills it only twice, it comes to an end, and a single experiment sees every call that it takes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scalecurve_api.planning.plan import count_trials
from scalecurve_api.spec.experiment import ScalingExperiment
from tests.cluster.applied import FINAL, Applied, Object
from tests.cluster.creations import Creations
from tests.cluster.operator_process import OperatorProcess, service_account
from tests.cluster.proxy import Call, Fault, Halt, Proxy
from tests.waiting import eventually
from tools.devcluster.tier import Tier

Point = tuple[str, ...]


def by_kind_and_place(call: Call) -> Point:
    """One point for each kind of request about trials of the first repetition, and one about those of later ones."""
    return (call.kind, "later" if re.search(r"-r[2-9]", call.object) else "first")


def by_object(call: Call) -> Point:
    """One point for each request of an experiment: its kind, and what it is about; of pods only the job's name."""
    return (call.kind, re.sub(r"(-a\d+-\d+)-[a-z0-9]{5}$", r"\1", call.object))


@dataclass
class Sweep:
    """A fault for `Proxy.fault` that kills `victim` at every new point, before and after forwarding."""

    point: Callable[[Call], Point] = by_kind_and_place
    victim: Callable[[], int] = lambda: 0
    """process id of the operator that runs"""
    killed: list[tuple[Point, bool]] = field(default_factory=list)
    _last: int = 0

    @property
    def points(self) -> set[Point]:
        """Those where it has killed before and after forwarding."""
        sides = Counter(point for point, _ in self.killed)
        return {point for point, count in sides.items() if count == 2}

    def __call__(self, call: Call) -> Fault | None:
        fresh = [forwarded for forwarded in (False, True) if (self.point(call), forwarded) not in self.killed]
        pid = self.victim()
        if not fresh or pid == self._last:  # or it is dying of another call
            return None
        self._last = pid
        self.killed.append((self.point(call), fresh[0]))
        return Halt(lambda: os.killpg(pid, signal.SIGKILL), forwarded=fresh[0])


def keep_running(operator: OperatorProcess, until: Callable[[], bool], timeout_s: float) -> int:
    """Start the operator whenever it has ended, as a kubelet does, until that is so; how often.

    Raises AssertionError.
    """
    starts = 0

    def done() -> bool:
        nonlocal starts
        if until():
            return True
        if not operator.alive:
            operator.start()
            starts += 1
        return False

    eventually(done, f"the work of {operator.name}", timeout_s, log=lambda: f"started {starts} times", poll_s=0.05)
    return starts


@dataclass(frozen=True)
class Endured:
    """How an experiment went under disturbances."""

    applied: Applied
    calls: list[Call]
    starts: int
    seconds: float


def endure(
    tier: Tier,
    tree: Object,
    disturb: Callable[[Proxy, OperatorProcess], None] = lambda proxy, operator: None,
    meanwhile: Callable[[Proxy, Applied], None] = lambda proxy, applied: None,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
) -> Endured:
    """Run the experiment, once undisturbed and once under what `disturb` sets up, and hold one against the other.

    `meanwhile` is called some times a second until the experiment has ended.

    Raises AssertionError where they differ in more than measured numbers, or where `check` finds something.
    """
    namespace = tree["metadata"]["namespace"]
    account = service_account(tier, namespace)
    trials = count_trials(ScalingExperiment.model_validate(tree).spec)
    expected, services = _undisturbed(tier, account, tree)
    with Creations(tier, namespace) as created, Proxy(tier, account) as proxy:
        # Whoever loses so short a lease is started anew, too.
        settings = {"LEASE_SECONDS": "2", **(settings or {})}
        operator = OperatorProcess(tier, namespace, proxy.kubeconfig, settings=settings)
        started = time.monotonic()
        disturb(proxy, operator)
        applied, still = Applied.apply(tier, tree), _calm(proxy)

        def ended() -> bool:
            if applied.status.get("phase") not in FINAL:
                meanwhile(proxy, applied)
                return False
            return operator.probe()[0] == 200 and still() and not applied.left()

        try:
            starts = keep_running(operator, ended, timeout_s)
            same(outcome(applied.status), expected, "outcome")
            check(applied, created, trials, services)
        except BaseException as error:
            error.add_note(f"status: {applied.status}\nleft: {applied.left()}\n{operator.last_lines(60)}")
            raise
        finally:
            operator.close()
        return Endured(applied, list(proxy.calls), starts, time.monotonic() - started)


_UNDISTURBED: dict[str, tuple[Object, set[str]]] = {}
"""spec -> what `_undisturbed` found"""


def _undisturbed(tier: Tier, account: Path, tree: Object) -> tuple[Object, set[str]]:
    """The outcome of an experiment that nothing happens to, and its Services without its name before theirs."""
    spec, namespace = json.dumps(tree["spec"]), tree["metadata"]["namespace"]
    if spec not in _UNDISTURBED:
        with OperatorProcess(tier, namespace, account), Creations(tier, namespace) as created:
            metadata = {"name": "undisturbed", "namespace": namespace}
            expected = outcome(Applied.apply(tier, {**tree, "metadata": metadata}).final())
            services = {each.removeprefix("undisturbed") for each in created.counts("services")}
        _UNDISTURBED[spec] = expected, services
    return _UNDISTURBED[spec]


def _calm(proxy: Proxy, quiet_s: float = 1.5) -> Callable[[], bool]:
    """Whether nothing but its lease was asked for that long."""
    seen, since = -1, 0.0

    def is_calm() -> bool:
        nonlocal seen, since
        count = sum("leases" not in call.kind for call in list(proxy.calls))
        if count != seen:
            seen, since = count, time.monotonic()
        return time.monotonic() - since > quiet_s

    return is_calm


def outcome(status: Object) -> Object:
    """An experiment's status without what is measured and when it was: the same however often it was interrupted."""
    plain = ("phase", "total", "done", "progress", "counts", "current", "observedGeneration")
    return {
        **{name: status.get(name) for name in plain},
        "headlines": [(each["series"], each["mode"], each["workers"]) for each in status.get("headlines", [])],
        "conditions": sorted((each["type"], each["status"], each["reason"]) for each in status["conditions"]),
    }


def check(applied: Applied, created: Creations, trials: int, services: set[str], spare_records: bool = False) -> None:
    """Every trial succeeded at its first attempt, all was created once, and nothing but records is left.

    A job that ends while there is no operator may have had no Service. ``spare_records``: two operators may each have
    kept what they saw of one attempt; the trial names one of the two and owns both.
    """
    found = applied.trials()
    attempts = {
        name: (status.get("phase"), status.get("attempts"), [past["attempt"] for past in status.get("history", [])])
        for name, status in found.items()
    }
    same(attempts, dict.fromkeys(found, ("Succeeded", 1, [1])), "trials")
    same(len(found), trials, "number of trials")
    same(created.counts("scalingtrials"), dict.fromkeys(found, 1), "creations of trials")
    same(created.counts("jobs"), {f"{name}-a1": 1 for name in found}, "creations of jobs")
    made = created.counts("services")
    same(made, {name: 1 for name in made if name.removeprefix(applied.name) in services}, "creations of services")
    records = {name for status in found.values() for name in status["record"]["configMaps"]}
    kept = applied.records()
    if spare_records:
        spare = [name.partition("-a1-record-")[0] for name in kept - records]
        assert len(spare) == len(set(spare)), f"more than one spare record of a trial: {kept - records}"
        assert set(spare) <= set(found), f"records of no trial: {kept - records}"
        kept &= records
    same(kept, records, "records")
    counts = created.counts("configmaps")
    same({name: counts.get(name) for name in records}, dict.fromkeys(records, 1), "creations of records")
    applied.gone()


def same(found: object, expected: object, what: str) -> None:
    """Raise AssertionError that shows both, unless they are equal."""
    assert found == expected, f"{what}:\n   found {found}\nexpected {expected}"
