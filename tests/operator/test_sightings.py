"""What is remembered of objects: never an older version than before, and of finished trials only what is needed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.spec.object_names import job_name, labels
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_operator.cache.object_cache import Key, Sightings
from scalecurve_operator.cache.trial_index import jobs_of
from scalecurve_operator.health import ECHO_S, sick
from scalecurve_operator.main import handlers
from scalecurve_operator.watch.initial_list import kinds
from tests.operator.left_behind import experiment_tree

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
    "experiment": (experiment, "see_experiment", "lose_experiment"),
    "trial": (trial, "see_trial", "lose_trial"),
    "job": (job, "see_job", "lose_job"),
}


def version_of(sightings: Sightings, kind: str) -> tuple[str, int] | None:
    family = sightings.families.get(KEY)
    if family is None:
        return None
    found = {
        "experiment": [family.experiment] if family.experiment else [],
        "trial": list(family.trials.values()),
        "job": list(family.jobs.values()),
    }[kind]
    return (found[0].uid, found[0].version) if found else None  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", SEE)
@given(seen=st.lists(st.integers(1, 30), min_size=1, max_size=12), remade_at=st.integers(1, 31))
def test_an_older_version_never_replaces_a_newer(kind: str, seen: list[int], remade_at: int) -> None:
    """Versions grow over objects of one name, deleted and made anew, as over changes of one."""
    make, see, _ = SEE[kind]
    sightings, newest = Sightings(), 0
    for version in seen:
        key = getattr(sightings, see)(make("new" if version >= remade_at else "old", version))
        assert (key is not None) == (version > newest)
        newest = max(newest, version)
        assert version_of(sightings, kind) == ("new" if newest >= remade_at else "old", newest)


@pytest.mark.parametrize("kind", SEE)
def test_only_the_object_itself_is_lost(kind: str) -> None:
    make, see, lose = SEE[kind]
    sightings = Sightings()
    assert getattr(sightings, see)(make("one", 1)) == KEY
    assert getattr(sightings, lose)(make("another", 9)) is None
    assert getattr(sightings, lose)(make("one", 9)) == KEY
    assert sightings.families == {}
    assert getattr(sightings, lose)(make("one", 9)) is None


def test_foreign_objects_are_not_ours() -> None:
    sightings = Sightings()
    theirs = job()
    theirs["metadata"]["labels"] = {"app": "web"}
    assert sightings.see_job(theirs) is None
    assert sightings.see_trial({**trial(), "metadata": {**trial()["metadata"], "labels": None}}) is None
    assert sightings.families == {}


def test_of_an_ended_trial_only_the_little_that_is_needed_is_kept() -> None:
    sightings = Sightings()
    sightings.see_trial(trial(version=1, phase="Running", attempts=1, timeline=[{"phase": "Running", "atNs": 1}]))
    known = sightings.families[KEY].trials["exp-a-r1"]
    assert known.status is not None
    past = [{"attempt": 1, "phase": "Succeeded"}]
    ended = trial(
        version=2, phase="Succeeded", attempts=1, history=past, summary={"throughput": 7.0}, nodes=["n1"], jobUid="j1"
    )
    sightings.see_trial(ended)
    known = sightings.families[KEY].trials["exp-a-r1"]
    assert known.status is None
    assert known.history == ((1, TrialPhase.succeeded),)
    assert (known.throughput, known.nodes, known.job_uid) == (7.0, ("n1",), "j1")


def test_a_job_that_vanishes_leaves_its_uid_with_its_attempt() -> None:
    sightings = Sightings()
    sightings.see_trial(trial(attempts=1))
    sightings.see_job(job())
    sightings.lose_job(job(version=5))
    family = sightings.families[KEY]
    assert family.trials["exp-a-r1"].job_uid == "j1"
    sightings.see_trial(trial(version=6, attempts=1, phase="Starting"))
    assert family.trials["exp-a-r1"].job_uid == "j1"
    sightings.see_trial(trial(version=7, attempts=2, phase="Starting"))
    assert family.trials["exp-a-r1"].job_uid is None


@pytest.mark.parametrize("kind", SEE)
def test_what_is_gone_is_not_brought_back_by_a_stream_that_lags(kind: str) -> None:
    make, see, lose = SEE[kind]
    sightings = Sightings()
    assert getattr(sightings, see)(make("one", 5)) == KEY
    assert getattr(sightings, lose)(make("one", 5)) == KEY
    assert getattr(sightings, see)(make("one", 7)) is None
    assert sightings.families == {}
    assert getattr(sightings, see)(make("another", 8)) == KEY


def test_a_job_that_is_only_asked_to_go_is_seen_while_it_does() -> None:
    sightings = Sightings()
    sightings.see_job(job(version=5))
    assert sightings.forget_job(job(version=5)) == KEY
    assert sightings.see_job(job(version=6)) == KEY


def test_why_a_job_was_given_up_outlives_its_changes() -> None:
    sightings = Sightings()
    sightings.see_job(job())
    family = sightings.families[KEY]
    (seen,) = family.jobs.values()
    seen.given_up = seen.stuck = ("Unschedulable", "no GPU")  # type: ignore[assignment]
    sightings.see_job(job(version=2, status={"active": 1}))
    (seen,) = family.jobs.values()
    assert seen.given_up == seen.stuck == ("Unschedulable", "no GPU")
    sightings.see_job(job("j2", version=3))
    (seen,) = family.jobs.values()
    assert seen.given_up is None


def test_a_job_of_an_earlier_trial_of_this_name_is_not_this_ones() -> None:
    """Its experiment was deleted and made anew; the garbage collector has not come to the job yet."""
    sightings = Sightings()
    sightings.see_job(job(owner="earlier"))
    family = sightings.families[KEY]
    assert len(jobs_of(family, "exp-a-r1")) == 1, "while there is no trial, it stands in the way"
    sightings.see_trial(trial("t1", 2, attempts=1))
    assert jobs_of(family, "exp-a-r1") == []
    sightings.lose_job(job(owner="earlier", version=3))
    assert family.trials["exp-a-r1"].job_uid is None
    sightings.see_job(job("j2", version=4))
    assert [each.uid for each in jobs_of(family, "exp-a-r1")] == ["j2"]


def why_sick(sightings: Sightings) -> str | None:
    since = max((when for _, when in sightings.unechoed.values()), default=0.0)
    return sick(sightings.unechoed, 0.0, 0.0, False, since + ECHO_S + 1)


def test_a_write_that_its_watch_does_not_show_is_missed() -> None:
    sightings = Sightings()
    sightings.echoed("scalingtrials", 4)
    sightings.wrote("scalingtrials", 5)
    sightings.wrote("scalingtrials", 6)
    assert "scalingtrials has not shown version 5" in (why_sick(sightings) or "")
    sightings.echoed("scalingtrials", 5)
    assert why_sick(sightings) is None


def test_an_echo_may_come_before_its_answer() -> None:
    """And a write that changes nothing is answered with a version that was shown long ago."""
    sightings = Sightings()
    sightings.echoed("scalingtrials", 9)
    sightings.wrote("scalingtrials", 9)
    sightings.wrote("scalingtrials", 5)
    assert why_sick(sightings) is None
    sightings.wrote("scalingexperiments", 5)
    assert why_sick(sightings) is not None


def test_an_object_that_is_deleted_at_once_after_a_write_is_echo_enough() -> None:
    """kopf folds the two into one: an experiment's last status, and ``ttlSecondsAfterFinished: 0``."""
    sightings, nudged = Sightings(), list[Key]()
    registry = handlers(kinds(sightings), sightings, lambda key, after: nudged.append(key), lambda uid: None)
    (note,) = [each for each in registry._watching.get_all_handlers() if each.id == "note-scalingexperiments"]
    sightings.see_experiment(experiment(version=5))
    sightings.wrote("scalingexperiments", 5)
    asyncio.run(note.fn(event={"type": "DELETED", "object": experiment(version=6)}))  # type: ignore[arg-type]
    assert nudged == [KEY]
    assert why_sick(sightings) is None
