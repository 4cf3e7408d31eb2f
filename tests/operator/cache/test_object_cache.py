"""What is remembered of objects: never an older version than before, and of finished trials only what is needed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.spec.object_names import job_name, labels
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_operator.cache.cached_objects import Key, bounded
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.health import MAX_WATCH_LAG_S, unhealthy
from scalecurve_operator.reconcile.read_spec import NotRunnableError, read_experiment
from scalecurve_operator.watch.handlers import handlers
from scalecurve_operator.watch.initial_list import watched_kinds
from tests.operator.attempt_remains import experiment_tree

KEY = Key("ns", "exp")


def experiment(uid: str = "e1", version: int = 1) -> dict[str, Any]:
    tree = experiment_tree()
    tree["metadata"] |= {"namespace": "ns", "uid": uid, "resourceVersion": str(version), "managedFields": [{}]}
    return tree


def trial(uid: str = "t1", version: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "exp-a-r1",
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": labels("exp"),
            "ownerReferences": [{"uid": "e1"}],
        },
        "status": status,
    }


def job(uid: str = "j1", version: int = 1, attempt: int = 1, owner: str = "t1", **more: Any) -> dict[str, Any]:
    return {
        "kind": "Job",
        "metadata": {
            "name": job_name("exp-a-r1", attempt),
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": labels("exp", "exp-a-r1", attempt),
            "ownerReferences": [{"uid": owner}],
        },
        **more,
    }


SEE = {
    "experiment": (experiment, "upsert_experiment", "delete_experiment"),
    "trial": (trial, "upsert_trial", "delete_trial"),
    "job": (job, "upsert_job", "delete_job"),
}


def version_of(cache: ObjectCache, kind: str) -> tuple[str, int] | None:
    objects = cache.experiments.get(KEY)
    if objects is None:
        return None
    found = {
        "experiment": [objects.experiment] if objects.experiment else [],
        "trial": list(objects.trials.values()),
        "job": list(objects.jobs.values()),
    }[kind]
    return (found[0].uid, found[0].version) if found else None  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", SEE)
@given(seen=st.lists(st.integers(1, 30), min_size=1, max_size=12), remade_at=st.integers(1, 31))
def test_an_older_version_never_replaces_a_newer(kind: str, seen: list[int], remade_at: int) -> None:
    """Versions grow over objects of one name, deleted and made anew, as over changes of one."""
    make, see, _ = SEE[kind]
    cache, newest = ObjectCache(), 0
    for version in seen:
        key = getattr(cache, see)(make("new" if version >= remade_at else "old", version))
        assert (key is not None) == (version > newest)
        newest = max(newest, version)
        assert version_of(cache, kind) == ("new" if newest >= remade_at else "old", newest)


@pytest.mark.parametrize("kind", SEE)
def test_only_the_object_itself_is_lost(kind: str) -> None:
    make, see, lose = SEE[kind]
    cache = ObjectCache()
    assert getattr(cache, see)(make("one", 1)) == KEY
    assert getattr(cache, lose)(make("another", 9)) is None
    assert getattr(cache, lose)(make("one", 9)) == KEY
    assert cache.experiments == {}
    assert getattr(cache, lose)(make("one", 9)) is None


def test_foreign_objects_are_not_ours() -> None:
    cache = ObjectCache()
    theirs = job()
    theirs["metadata"]["labels"] = {"app": "web"}
    assert cache.upsert_job(theirs) is None
    assert cache.upsert_trial({**trial(), "metadata": {**trial()["metadata"], "labels": None}}) is None
    assert cache.experiments == {}


def test_of_an_ended_trial_only_the_little_that_is_needed_is_kept() -> None:
    cache = ObjectCache()
    cache.upsert_trial(trial(version=1, phase="Running", attempts=1, timeline=[{"phase": "Running", "atNs": 1}]))
    known = cache.experiments[KEY].trials["exp-a-r1"]
    assert known.status is not None
    past = [{"attempt": 1, "phase": "Succeeded"}]
    ended = trial(
        version=2, phase="Succeeded", attempts=1, history=past, summary={"throughput": 7.0}, nodes=["n1"], jobUid="j1"
    )
    cache.upsert_trial(ended)
    known = cache.experiments[KEY].trials["exp-a-r1"]
    assert known.status is None
    assert known.history == ((1, TrialPhase.succeeded),)
    assert (known.throughput, known.nodes, known.job_uid) == (7.0, ("n1",), "j1")


def test_a_job_that_vanishes_leaves_its_uid_with_its_attempt() -> None:
    cache = ObjectCache()
    cache.upsert_trial(trial(attempts=1))
    cache.upsert_job(job())
    cache.delete_job(job(version=5))
    objects = cache.experiments[KEY]
    assert objects.trials["exp-a-r1"].job_uid == "j1"
    cache.upsert_trial(trial(version=6, attempts=1, phase="Starting"))
    assert objects.trials["exp-a-r1"].job_uid == "j1"
    cache.upsert_trial(trial(version=7, attempts=2, phase="Starting"))
    assert objects.trials["exp-a-r1"].job_uid is None


@pytest.mark.parametrize("kind", SEE)
def test_what_is_gone_is_not_brought_back_by_a_stream_that_lags(kind: str) -> None:
    make, see, lose = SEE[kind]
    cache = ObjectCache()
    assert getattr(cache, see)(make("one", 5)) == KEY
    assert getattr(cache, lose)(make("one", 5)) == KEY
    assert getattr(cache, see)(make("one", 7)) is None
    assert cache.experiments == {}
    assert getattr(cache, see)(make("another", 8)) == KEY


def test_a_job_that_is_only_asked_to_go_is_seen_while_it_does() -> None:
    cache = ObjectCache()
    cache.upsert_job(job(version=5))
    assert cache.forget_job(job(version=5)) == KEY
    assert cache.upsert_job(job(version=6)) == KEY


def test_why_a_job_was_given_up_outlives_its_changes() -> None:
    cache = ObjectCache()
    cache.upsert_job(job())
    objects = cache.experiments[KEY]
    (seen,) = objects.jobs.values()
    seen.forced_end = seen.pod_problem = ("Unschedulable", "no GPU")  # type: ignore[assignment]
    cache.upsert_job(job(version=2, status={"active": 1}))
    (seen,) = objects.jobs.values()
    assert seen.forced_end == seen.pod_problem == ("Unschedulable", "no GPU")
    cache.upsert_job(job("j2", version=3))
    (seen,) = objects.jobs.values()
    assert seen.forced_end is None


def test_a_job_of_an_earlier_trial_of_this_name_is_not_this_ones() -> None:
    """Its experiment was deleted and made anew; the garbage collector has not come to the job yet."""
    cache = ObjectCache()
    cache.upsert_job(job(owner="earlier"))
    objects = cache.experiments[KEY]
    assert len(objects.jobs_of("exp-a-r1")) == 1, "while there is no trial, it stands in the way"
    cache.upsert_trial(trial("t1", 2, attempts=1))
    assert objects.jobs_of("exp-a-r1") == []
    cache.delete_job(job(owner="earlier", version=3))
    assert objects.trials["exp-a-r1"].job_uid is None
    cache.upsert_job(job("j2", version=4))
    assert [each.uid for each in objects.jobs_of("exp-a-r1")] == ["j2"]


def ended(**status: Any) -> dict[str, Any]:
    return {**experiment(), "status": {"phase": "Failed", "observedGeneration": 0, **status}}


@pytest.mark.parametrize(
    ("body", "left", "settled"),
    [
        (experiment(), [], False),
        (ended(total=2), [], True),
        (ended(total=2), [job()], False),
        (ended(total=2), [trial(attempts=1)], False),
        (ended(total=2), [trial(attempts=1, history=[{"attempt": 1, "phase": "Failed"}])], True),
        (ended(), [job()], True),  # refused: nothing of it was planned
    ],
)
def test_an_experiment_is_settled_once_none_of_its_jobs_or_attempts_is_left(
    body: dict[str, Any], left: list[dict[str, Any]], settled: bool
) -> None:
    cache = ObjectCache()
    cache.upsert_experiment(body)
    for each in left:
        (cache.upsert_job if "kind" in each else cache.upsert_trial)(each)
    assert cache.objects(KEY).settled is settled


def problem(cache: ObjectCache) -> str | None:
    since = max((when for _, when in cache.unconfirmed.values()), default=0.0)
    return unhealthy(cache.unconfirmed, 0.0, 0.0, False, since + MAX_WATCH_LAG_S + 1)


def test_a_write_that_its_watch_does_not_show_is_missed() -> None:
    cache = ObjectCache()
    cache.note_watch("scalingtrials", 4)
    cache.note_write("scalingtrials", 5)
    cache.note_write("scalingtrials", 6)
    assert "scalingtrials has not shown version 5" in (problem(cache) or "")
    cache.note_watch("scalingtrials", 5)
    assert problem(cache) is None


def test_an_echo_may_come_before_its_answer() -> None:
    """And a write that changes nothing is answered with a version that was shown long ago."""
    cache = ObjectCache()
    cache.note_watch("scalingtrials", 9)
    cache.note_write("scalingtrials", 9)
    cache.note_write("scalingtrials", 5)
    assert problem(cache) is None
    cache.note_write("scalingexperiments", 5)
    assert problem(cache) is not None


def test_an_object_that_is_deleted_at_once_after_a_write_is_echo_enough() -> None:
    """kopf folds the two into one: an experiment's last status, and ``ttlSecondsAfterFinished: 0``."""
    cache, enqueued = ObjectCache(), list[Key]()
    registry = handlers(watched_kinds(cache), cache, lambda key, after: enqueued.append(key), lambda uid: None)
    (note,) = [each for each in registry._watching.get_all_handlers() if each.id == "cache-scalingexperiments"]
    cache.upsert_experiment(experiment(version=5))
    cache.note_write("scalingexperiments", 5)
    asyncio.run(note.fn(event={"type": "DELETED", "object": experiment(version=6)}))  # type: ignore[arg-type]
    assert enqueued == [KEY]
    assert problem(cache) is None


def test_of_a_huge_spec_only_the_size_is_kept() -> None:
    usual: dict[str, object] = {"workload": {"env": {"A": "x" * 1000}}, "scaling": {"workers": [1, 2]}}
    assert bounded(usual) is usual
    assert bounded({"workload": {"env": {f"A{n}": "x" * 6500 for n in range(190)}}}) == {"tooLarge": 1_235_661}
    with pytest.raises(NotRunnableError, match=r"^spec: 300,000 bytes; at most 262,144: keep long commands"):
        read_experiment({"metadata": {"name": "e"}, "spec": {"tooLarge": 300_000}})
