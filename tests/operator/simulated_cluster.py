"""Experiments against an API server in memory: a job controller that plays outcomes, and operators over it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.spec.object_names import ATTEMPT_LABEL, TRIAL_LABEL, job_name, trial_name
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_kube.resources import EXPERIMENTS, PODS, TRIALS, Object
from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.reconcile.intake import PayloadBudget
from scalecurve_operator.reconcile.judge import Judgment, judge_payload
from scalecurve_operator.reconcile.judge_process import Judges
from scalecurve_operator.reconcile.reconciler import Reconciler
from scalecurve_operator.settings import Settings
from tests.operator.api_in_memory import InMemory, Killed, Store
from tests.operator.attempt_remains import announced, experiment, experiment_tree, log_of, payload_of, pod, pod_name

NAMESPACE = "ns"
PLURALS = (EXPERIMENTS.plural, TRIALS.plural, "jobs")
AT = {each.plural: each.path(NAMESPACE).removeprefix("/") for each in (EXPERIMENTS, TRIALS, PODS)}
AT["jobs"] = f"apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PHASES = {"good": "Succeeded", "bad": "Failed", "silent": "Invalid"}


class JudgesHere(Judges):
    """Judge in this process: a record that a worker wrote needs no limits, and no process starts."""

    async def judge(self, trial: TrialSpec, payload: bytes, outcome: Outcome, announced: Summary | None) -> Judgment:
        """The verdict, after others have had their turn, as with a process."""
        await asyncio.sleep(0)
        return judge_payload(trial, payload, outcome, announced)


JUDGES = Judges()
"""Of all tests of records that no worker writes: each starts a process"""
RETRIES = {"retries": 1, "retryInvalid": 1, "maxFailedTrials": 9}


class World:
    """A store, its job controller, and what each attempt of each trial is going to be: good, bad or silent."""

    judges: Judges = JudgesHere()

    def __init__(self, script: Mapping[str, Sequence[str]], names: Sequence[str] = ("one", "two"), **spec: Any) -> None:
        self.store, self.script = Store(), script
        self.trials: dict[str, TrialSpec] = {}
        for name in names:
            self.store.put(AT["scalingexperiments"], self._tree(name, {"failurePolicy": RETRIES, **spec}))
            planned = experiment(name, failurePolicy=RETRIES, **spec)
            plan = make_plan(planned, planned.spec.measure.sessions.count)
            self.trials |= {trial_name(name, trial.name): trial for trial in plan.trials}

    @staticmethod
    def _tree(name: str, spec: Mapping[str, Any]) -> Object:
        tree = experiment_tree(name, **spec)
        tree["metadata"] |= {"namespace": NAMESPACE, "generation": 1}
        return tree

    def outcomes(self, trial: str) -> list[str]:
        """Of its attempts, one after the other, until there is no reason for another."""
        found: list[str] = []
        for outcome in [*self.script.get(self.trials[trial].point.name, ()), "good"]:
            found.append(outcome)
            if outcome == "good" or found.count(outcome) > 1:
                break
        return found

    def play(self, job: Object) -> None:
        """Its pods begin, and then end."""
        trial, attempt = job["metadata"]["labels"][TRIAL_LABEL], int(job["metadata"]["labels"][ATTEMPT_LABEL])
        name, labels, count = job["metadata"]["name"], job["metadata"]["labels"], job["spec"]["completions"]
        status = job.get("status") or {}
        if status.get("conditions") or job["metadata"].get("deletionTimestamp"):
            return
        if not status:
            self._pods(job, [pod(NAMESPACE, name, index, labels, None) for index in range(count)])
            self.store.put(AT["jobs"], {**job, "status": {"ready": count}})
            return
        outcomes = self.outcomes(trial)
        outcome = outcomes[min(attempt, len(outcomes)) - 1]  # attempts whose jobs were lost count, too
        self.store.logs[pod_name(name, 0)], said = self.left(trial, name, attempt, good=outcome == "good")
        code = 1 if outcome == "bad" else 0
        self._pods(job, [pod(NAMESPACE, name, index, labels, code, said) for index in range(count)])
        ended = {"type": "Failed" if code else "Complete", "status": "True", "reason": "Test"}
        self.store.put(AT["jobs"], {**job, "status": {"conditions": [ended]}})

    def left(self, trial: str, job: str, attempt: int, *, good: bool) -> tuple[str, str]:
        """The log and the termination message of the recording pod."""
        payload = payload_of(self.trials[trial], job, attempt)
        if not good:
            return "nothing\n", announced(self.trials[trial], None, attempt)
        return log_of(payload), announced(self.trials[trial], payload, attempt)

    def _pods(self, job: Object, pods: Sequence[Object]) -> None:
        for each in pods:
            each["metadata"]["ownerReferences"] = [{"uid": job["metadata"]["uid"]}]
            self.store.put(AT["pods"], each)

    def spec(self, name: str, **changes: Any) -> None:
        """A user changes an experiment."""
        known = self.store.objects[AT["scalingexperiments"], name]
        metadata = {**known["metadata"], "generation": known["metadata"]["generation"] + 1}
        self.store.put(AT["scalingexperiments"], {**known, "metadata": metadata, "spec": {**known["spec"], **changes}})

    def status(self, name: str) -> Object:
        """Of an experiment."""
        found: Object = self.store.objects[AT["scalingexperiments"], name]["status"]
        return found

    def condition(self, name: str, kind: str) -> Object:
        """Of an experiment."""
        (found,) = [each for each in self.status(name)["conditions"] if each["type"] == kind]
        return dict(found)

    def go_on(self, chance: random.Random, pace: float) -> None:
        """Some jobs come a step further, and what has lost its owner goes."""
        for job in self.store.of("jobs"):
            if chance.random() < pace:
                self.play(job)
        if chance.random() < pace:
            self.store.collect_garbage()

    def live(self) -> Iterator[str]:
        """Experiments that have pods running."""
        for job in self.store.of("jobs"):
            if "ready" in (job.get("status") or {}):
                yield job["metadata"]["name"].partition("-")[0]

    @property
    def over(self) -> bool:
        """Every experiment has ended and nothing of its jobs is left."""
        ends = [(each.get("status") or {}).get("phase") for each in self.store.of("scalingexperiments")]
        return all(end in ("Succeeded", "Failed") for end in ends) and not self.store.of("jobs")

    def check(self) -> None:
        """All is as the script says, and was made once."""
        for name in self.trials:
            (trial,) = [each for each in self.store.of("scalingtrials") if each["metadata"]["name"] == name]
            wanted = self.outcomes(name)
            history = [(past["attempt"], past["phase"]) for past in trial["status"]["history"]]
            assert history == [(attempt, PHASES[outcome]) for attempt, outcome in enumerate(wanted, 1)]
            assert trial["status"]["phase"] == PHASES[wanted[-1]]
            assert trial["status"]["attempts"] == len(wanted)
        jobs = {job_name(name, at + 1) for name in self.trials for at in range(len(self.outcomes(name)))}
        made = {name: count for name, count in self.store.created.items() if name.startswith("jobs/")}
        assert made == {f"jobs/{name}": 1 for name in jobs}
        assert not self.store.of("services")
        assert not self.store.of("pods")


class Process:
    """An operator: what it has seen, and how far each of its watches has come."""

    def __init__(self, world: World, dies_at: int | None = None, served: bool = False) -> None:
        self.world, self.cache = world, ObjectCache()
        self.cluster = InMemory(world.store, dies_at, served)
        setup = Settings(starting_seconds=0.0, pools={"default": 1, "a": 1, "b": 1})
        self.enqueued: set[Key] = set()
        self.reconciler = Reconciler(
            self.cluster,
            setup,
            self.cache,
            lambda key, after: self.enqueued.add(key),
            lambda: True,
            PayloadBudget(world.judges),
        )
        self.come: dict[str, int] = {}
        for plural in PLURALS:
            self.list(plural)

    def _handlers(self, plural: str) -> tuple[Callable[[Object], object], Callable[[Object], object]]:
        name = {"scalingexperiments": "experiment", "scalingtrials": "trial", "jobs": "job"}[plural]
        return getattr(self.cache, f"upsert_{name}"), getattr(self.cache, f"delete_{name}")

    def list(self, plural: str) -> None:
        """A watch begins, or begins anew after a 410: what was deleted meanwhile, nobody says."""
        self.come[plural] = len(self.world.store.events)
        for each in self.world.store.of(plural):
            self._handlers(plural)[0](_copy(each))

    def watch(self, plural: str, most: int = 10**9) -> None:
        """Hear the next of what happened."""
        see, lose = self._handlers(plural)
        for event, body in self.world.store.events[self.come[plural] :][:most]:
            self.come[plural] += 1
            if _plural(body) == plural:
                (lose if event == "DELETED" else see)(_copy(body))

    def watch_some(self, chance: random.Random, trouble: Callable[[], bool], pace: float) -> None:
        """Streams come apart: each shows some more of what happened, or breaks and begins anew."""
        for plural in PLURALS:
            if trouble():
                self.list(plural)
            elif chance.random() < pace:
                self.watch(plural, 10**9 if pace == 1.0 else chance.randrange(1, 6))

    async def reconcile(self) -> None:
        """Each experiment once; what fails is retried next time."""
        for key in [Key(NAMESPACE, "one"), Key(NAMESPACE, "two")]:
            with suppress(Exception):
                await self.reconciler.reconcile(key)


def _copy(body: Object) -> Object:
    return {**body, "metadata": dict(body["metadata"])}


def _plural(body: Object) -> str:
    return f"{body['kind'].lower()}s"


def run(world: World, chance: random.Random, *processes: Process, troubles: float = 0.0, pace: float = 0.6) -> None:
    """Until all is over; with ``troubles`` for a while. At a ``pace`` of 1 all comes at once that has happened.

    A killed process comes back at once.
    """
    most = 400
    running = list(processes)

    def trouble() -> bool:
        return turn < most / 2 and chance.random() < troubles

    def refuse(method: str, path: str) -> tuple[int, Object] | None:
        # But for logs: a record that cannot be read is missing in the end, and the trial another's.
        return (500, {"message": "busy"}) if not path.endswith("/log") and trouble() else None

    world.store.refuse = refuse
    with asyncio.Runner() as runner:
        for turn in range(most):
            for place, process in enumerate(running):
                if trouble():
                    running[place] = Process(world)
                else:
                    process.watch_some(chance, trouble, 1.0 if turn > most / 2 else pace)
            ends = runner.run(_together([process.reconcile() for process in running]))
            running = [Process(world) if end else process for process, end in zip(running, ends, strict=True)]
            assert len(running) > 1 or len(set(world.live())) <= 1, "two experiments of one pool at a time"
            world.go_on(chance, pace)
            if world.over:
                break
    world.store.collect_garbage()
    assert world.over, [each.get("status") for each in world.store.of("scalingexperiments")]
    world.check()


async def _together(turns: Sequence[Any]) -> list[bool]:
    """Which of them were killed."""
    ends = await asyncio.gather(*turns, return_exceptions=True)
    assert all(end is None or isinstance(end, Killed) for end in ends), ends
    return [end is not None for end in ends]


def settle(world: World, process: Process, play: bool = True) -> None:
    """Whatever happens of itself, while no user does anything."""
    for _ in range(12):
        for plural in PLURALS:
            process.watch(plural)
        asyncio.run(process.reconcile())
        world.go_on(random.Random(0), float(play))
