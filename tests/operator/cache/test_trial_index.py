"""The index decides as the whole plan would, whatever was seen and in whatever order."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.lifecycle import Collect, ExperimentPhase, Job, Observed, Start, decide
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.object_names import job_name, labels
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_operator.cache.cached_objects import ExperimentObjects, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.cache.trial_index import (
    MAX_LOST_JOBS,
    TrialIndex,
    has_ended_job,
    observe,
)
from scalecurve_operator.runners import RUNNERS
from tests.operator.attempt_remains import experiment, experiment_tree

KEY = Key("ns", "exp")
JOB_STATUSES: dict[str, dict[str, Any]] = {
    "starting": {},
    "running": {"ready": 9},
    "complete": {"conditions": [{"type": "Complete", "status": "True"}]},
    "failed": {"conditions": [{"type": "Failed", "status": "True"}]},
}
FINAL = ["Succeeded", "Failed", "Invalid", "Cancelled", "Full"]


class Watch:
    """Makes cache; each is newer than the one before."""

    def __init__(self, **spec: Any) -> None:
        self.experiment, self.cache, self.version = experiment(**spec), ObjectCache(), 0
        tree = experiment_tree()
        tree["metadata"] |= self.metadata("exp", "e1", "", {})
        self.cache.upsert_experiment(tree)
        self.index = self.open()

    @property
    def objects(self) -> ExperimentObjects:
        return self.cache.objects(KEY)

    def open(self) -> TrialIndex:
        plan = make_plan(self.experiment, self.experiment.spec.measure.sessions.count)
        return TrialIndex.build(plan, "e1", 1, self.objects)

    def metadata(self, name: str, uid: str, owner: str, tags: dict[str, str]) -> dict[str, Any]:
        self.version += 1
        return {
            "name": name,
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(self.version),
            "labels": tags,
            "ownerReferences": [{"uid": owner}],
        }

    def trial(self, place: int, attempts: int, history: list[str], job_uid: bool, owner: str = "e1") -> None:
        name = self.index.names[place]
        past = [{"attempt": number, "phase": phase} for number, phase in enumerate(history, 1)]
        status: dict[str, Any] = {"attempts": max(attempts, len(history)), "history": past}
        status["phase"] = history[-1] if history and attempts <= len(history) else "Starting"
        if history and history[-1] == "Succeeded":
            status |= {"summary": {"throughput": 5.0}, "nodes": [f"n{place}"]}
        if job_uid:
            status["jobUid"] = "j"
        self.cache.upsert_trial({"metadata": self.metadata(name, f"t{place}", owner, labels("exp")), "status": status})

    def job(self, place: int, attempt: int, state: str, owner: str | None = None) -> None:
        name = self.index.names[place]
        metadata = self.metadata(
            job_name(name, attempt), f"j{attempt}", owner or f"t{place}", labels("exp", name, attempt)
        )
        spec = {"completions": 1}
        self.cache.upsert_job({"kind": "Job", "metadata": metadata, "spec": spec, "status": JOB_STATUSES[state]})

    def lose(self, place: int, attempt: int) -> None:
        name = self.index.names[place]
        if attempt == 0:
            self.cache.delete_trial({"metadata": self.metadata(name, f"t{place}", "", labels("exp"))})
        else:
            tags = labels("exp", name, attempt)
            self.cache.delete_job({"metadata": self.metadata(job_name(name, attempt), f"j{attempt}", "", tags)})

    def note(self) -> None:
        touched, self.objects.changed = self.objects.changed, set()
        self.index.update(self.objects, touched)


PLACES = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("trial"), PLACES, st.integers(0, 5), st.lists(st.sampled_from(FINAL), max_size=3), st.booleans()),
    st.tuples(st.just("job"), PLACES, st.integers(1, 4), st.sampled_from(sorted(JOB_STATUSES))),
    st.tuples(st.just("lose"), PLACES, st.sampled_from([0, 0, 1, 2])),
)
POLICIES = st.fixed_dictionaries(
    {"retries": st.integers(0, 2), "retryInvalid": st.integers(0, 2), "maxFailedTrials": st.integers(0, 5)}
)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(STEPS, st.booleans()), max_size=30), POLICIES, st.integers(1, 4), st.booleans(), st.booleans()
)
def test_a_window_decides_as_the_whole(
    steps: list[tuple[tuple[Any, ...], bool]], policy: dict[str, int], parallelism: int, suspend: bool, cancel: bool
) -> None:
    measure = {"windows": 2, "stepsPerWindow": 3, "repetitions": 2}
    watch = Watch(measure=measure, failurePolicy=policy, parallelism=parallelism, suspend=suspend, cancel=cancel)
    index, objects = watch.index, watch.objects
    for (kind, *given_), turn in steps:
        getattr(watch, kind)(*given_)
        if turn:
            watch.note()
            check(watch, index, objects)
    watch.note()
    check(watch, index, objects)
    check(watch, watch.open(), objects)


def test_a_ladder_ends_where_memory_is_full() -> None:
    scaling = {"modes": ["weak"], "workers": [1], "batch": {"ladder": {"from": 8, "factor": 4, "maxBatches": 4}}}
    watch = Watch(scaling=scaling)
    for place, end in enumerate(["Succeeded", "Full"]):
        names, decision = watch.index.decide(watch.objects, 0.0)
        assert decision.actions == (Start(watch.index.names[place], 1),)
        assert decision.status.total == 4
        watch.trial(place, 1, [end], False)
        watch.note()
    names, decision = watch.index.decide(watch.objects, 0.0)
    assert (names, decision.actions) == ((), ())
    assert (decision.status.phase, decision.status.total) == (ExperimentPhase.succeeded, 2)
    assert decision.status.message == "2 of 2 trials done, 1 Full"


def check(watch: Watch, index: TrialIndex, objects: ExperimentObjects) -> None:
    _, some = index.decide(objects, 0.0)
    observed = {}
    for name in index.names:
        jobs = objects.jobs_of(name)
        status = RUNNERS[next(iter(RUNNERS))].read(jobs[-1].body) if jobs else None
        observed[name] = observe(objects.trials.get(name), jobs, status)
    whole = decide(index.spec, index.names, observed)
    assert some.actions == whole.actions
    assert (some.status.phase, some.status.message) == (whole.status.phase, whole.status.message)
    assert dict(some.status.counts) == dict(whole.status.counts)
    assert some.status.total == len(index.names)
    ends = Counter(observed[name].history[-1] for name in index.names if observed[name].history)
    assert len(index.throughputs) <= ends[TrialPhase.succeeded]


def test_a_claimed_attempt_without_a_job_is_begun_again_under_its_number() -> None:
    watch = Watch()
    watch.trial(0, 2, ["Failed"], job_uid=False)
    trial = watch.objects.trials[watch.index.names[0]]
    assert observe(trial, [], None) == Observed(1, (TrialPhase.failed,))


def test_an_attempt_that_loses_its_job_is_run_anew_a_few_times() -> None:
    watch = Watch()
    name = watch.index.names[0]
    for attempt in range(1, MAX_LOST_JOBS + 1):
        watch.trial(0, attempt, [], job_uid=True)
        job = Job.lost if attempt < MAX_LOST_JOBS else Job.ended
        assert observe(watch.objects.trials[name], [], None) == Observed(attempt, (), job)
    watch.note()
    _, decision = watch.index.decide(watch.objects, 0.0)
    assert decision.actions == (Collect(name),)


def test_a_job_that_ran_does_not_start_again() -> None:
    """A job that is about to end counts a pod less for a moment."""
    watch = Watch()
    name = watch.index.names[0]
    watch.job(0, 1, "starting")
    for phase, state in (("Starting", Job.starting), ("Running", Job.running)):
        status = {"attempts": 1, "phase": phase, "jobUid": "j1"}
        watch.cache.upsert_trial({"metadata": watch.metadata(name, "t0", "e1", labels("exp")), "status": status})
        jobs = watch.objects.jobs_of(name)
        status = watch.index.status_of(jobs[-1])
        assert observe(watch.objects.trials[name], jobs, status).job is state
    watch.job(0, 2, "starting")
    jobs = watch.objects.jobs_of(name)
    assert observe(watch.objects.trials[name], jobs, watch.index.status_of(jobs[-1])).job is Job.starting


def test_a_job_without_its_trial_stands_in_the_way() -> None:
    watch = Watch()
    watch.job(0, 1, "running", owner="an earlier trial")
    watch.note()
    assert watch.index.observed(watch.objects)[watch.index.names[0]].job is Job.running


def test_trials_of_an_earlier_experiment_count_for_nothing() -> None:
    watch = Watch()
    watch.trial(0, 1, ["Succeeded"], job_uid=True, owner="an earlier one")
    watch.note()
    assert not watch.index.terminal
    assert watch.index.observed(watch.objects) == {}
    assert watch.index.throughputs == {}


def test_nodes_of_a_series_are_kept_in_the_order_they_came() -> None:
    watch = Watch()
    for place in (1, 0, 1):
        watch.trial(place, 1, ["Succeeded"], job_uid=True)
        watch.note()
    assert [tuple(nodes) for nodes in watch.index.nodes[0].values()] == [("n1", "n0")]


def test_whether_somebody_waits_for_a_result() -> None:
    watch = Watch()
    assert not has_ended_job(None)
    watch.job(0, 1, "running")
    assert not has_ended_job(watch.objects)
    watch.job(1, 1, "failed")
    assert has_ended_job(watch.objects)
