"""What a user asks of an experiment besides its trials: to wait, to stop, to go, to take turns, to try again."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

import pytest

from scalecurve_api.spec.job_kinds import Runner
from tests.cluster.applied import Applied, Object, manifest
from tests.cluster.operator_process import OperatorProcess
from tools.devcluster.rest import ApiError
from tools.devcluster.tier import Tier
from tools.devcluster.waiting import wait_until

MERGE = "application/merge-patch+json"


@pytest.fixture
def operator(tier: Tier, namespace: str) -> Iterator[OperatorProcess]:
    """Two experiments at once in pool ``two``, one in the default one."""
    with OperatorProcess(tier, namespace, settings={"POOLS": "default=1,two=2"}) as running:
        yield running


def change(applied: Applied, **spec: object) -> None:
    applied.tier.rest.call("PATCH", applied.path, {"spec": spec}, MERGE)


def condition(applied: Applied, kind: str) -> Object:
    return next((each for each in applied.status.get("conditions") or () if each["type"] == kind), {})


def phases(applied: Applied) -> list[str]:
    return sorted(status.get("phase", "") for status in applied.trials().values())


def attempts(applied: Applied) -> list[list[str]]:
    return sorted([past["phase"] for past in status["history"]] for status in applied.trials().values())


def test_suspend_lets_what_runs_end_and_starts_nothing_more(
    tier: Tier, namespace: str, operator: OperatorProcess
) -> None:
    applied = Applied.apply(tier, manifest(namespace, repetitions=2, seconds=2))
    wait_until(lambda: "Running" in phases(applied), "a trial that runs")
    change(applied, suspend=True)
    wait_until(lambda: applied.status.get("phase") == "Suspended" and phases(applied) == ["Succeeded"], "its end")
    assert condition(applied, "Admitted")["reason"] == "Suspended"
    wait_until(lambda: not applied.left(), "nothing left")
    time.sleep(1)
    assert phases(applied) == ["Succeeded"], "nothing more was started"
    change(applied, suspend=False)
    assert applied.final()["phase"] == "Succeeded"
    assert phases(applied) == ["Succeeded"] * 4


def test_a_suspended_experiment_gives_its_place_away(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    first = Applied.apply(tier, manifest(namespace, name="first", suspend=True))
    second = Applied.apply(tier, manifest(namespace, name="second"))
    assert second.final()["phase"] == "Succeeded"
    assert first.trials() == {}
    change(first, suspend=False)
    assert first.final()["phase"] == "Succeeded"


def test_cancel_ends_what_runs_and_keeps_what_is_done(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    tree = manifest(namespace, play="hang@workers=2,succeed", repetitions=2, seconds=0)
    applied = Applied.apply(tier, tree)
    wait_until(lambda: "Running" in phases(applied), "a trial that hangs")
    done = phases(applied).count("Succeeded")
    change(applied, cancel=True)
    status = applied.final()
    assert status["phase"] == "Cancelled"
    assert status["counts"]["cancelled"] == 4 - done
    assert phases(applied) == ["Cancelled"] + ["Succeeded"] * done
    wait_until(lambda: not applied.left(), "nothing left")


def test_experiments_of_a_pool_take_turns_in_the_order_they_came(
    tier: Tier, namespace: str, operator: OperatorProcess
) -> None:
    names = ("a", "b", "c")
    all_of_them = []
    for name in names:
        all_of_them.append(Applied.apply(tier, manifest(namespace, name=name, seconds=0.5)))
        time.sleep(1.1)  # creation has a resolution of a second
    wait_until(lambda: condition(all_of_them[2], "Admitted").get("status") == "False", "waiting")
    said = condition(all_of_them[2], "Admitted")
    assert said["reason"] == "WaitingForPool"
    assert f"{namespace}/a" in said["message"] or f"{namespace}/b" in said["message"]
    spans = [(status["startedAt"], status["endedAt"]) for status in (each.final() for each in all_of_them)]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_pool_of_two_lets_two_run_side_by_side(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    both = [
        Applied.apply(tier, manifest(namespace, name=name, pool="two", play="hang@workers=1", deadlineSeconds=20))
        for name in ("a", "b")
    ]
    wait_until(lambda: all("Running" in phases(each) for each in both), "both running at once")
    for each in both:
        change(each, cancel=True)
        each.final()


def test_parallelism_runs_trials_side_by_side(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    applied = Applied.apply(tier, manifest(namespace, repetitions=2, play="hang", parallelism=3))
    wait_until(lambda: phases(applied).count("Running") == 3, "three at once")
    time.sleep(0.5)
    assert len(applied.trials()) == 3
    change(applied, cancel=True)
    applied.final()


@pytest.mark.parametrize("runner", [runner for runner in Runner if runner is not Runner.train_job])
def test_attempts_are_made_as_the_policy_says_and_all_are_kept(
    tier: Tier, namespace: str, operator: OperatorProcess, runner: Runner
) -> None:
    tree = manifest(
        namespace,
        runner=runner,
        play="fail@attempt=1,diverged@attempt=2,succeed",
        failurePolicy={"retries": 1, "retryInvalid": 1},
    )
    applied = Applied.apply(tier, tree)
    assert applied.final()["phase"] == "Succeeded"
    trials = applied.trials()
    # One worker has nothing to diverge from.
    assert attempts(applied) == [["Failed", "Invalid", "Succeeded"], ["Failed", "Succeeded"]]
    for name, status in trials.items():
        assert status["attempts"] == len(status["history"])
        for past in status["history"]:
            kept = f"{name}-a{past['attempt']}-record-"
            assert any(record.startswith(kept) for record in applied.records()), "every attempt's evidence is kept"


def test_too_many_failures_end_the_experiment(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    tree = manifest(namespace, repetitions=4, play="fail", failurePolicy={"maxFailedTrials": 1})
    applied = Applied.apply(tier, tree)
    status = applied.final()
    assert status["phase"] == "Failed"
    assert status["counts"]["failed"] == 2
    assert "maxFailedTrials, 1" in status["message"]


def test_an_experiment_goes_when_its_time_is_over(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    applied = Applied.apply(tier, manifest(namespace, ttlSecondsAfterFinished=3))
    applied.final()

    def gone() -> bool:
        try:
            tier.rest.call("GET", applied.path)
        except ApiError as error:
            return error.status == 404
        return False

    wait_until(gone, "its end", 30)
    wait_until(lambda: not applied.trials() and not applied.records(), "what it owned")


def test_a_started_spec_is_kept_by_the_api_server(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    applied = Applied.apply(tier, manifest(namespace, play="hang"))
    wait_until(lambda: applied.status.get("phase") == "Running", "its start")
    with pytest.raises(ApiError, match="only suspend and cancel can"):
        change(applied, pool="other")
    change(applied, cancel=True)
    applied.final()


def test_what_kubectl_shows_at_a_glance(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    Applied.apply(tier, manifest(namespace, play="fail@workers=4,succeed", workers=(1, 2, 4))).final()
    table = tier.kubectl("get", "sx", "-n", namespace).splitlines()
    assert table[0].split()[:6] == ["NAME", "PHASE", "DONE", "FAILED", "INVALID", "BEST"]
    assert table[1].split()[:5] == ["e", "Succeeded", "3/3", "1", "0"]
    assert "% at 2" in table[1]
    trials = tier.kubectl("get", "sxt", "-n", namespace)
    assert "RankFailed" in trials
    assert "samples/s" in trials
    events = tier.kubectl("get", "events", "-n", namespace, "-o", "json")
    about = {
        (each["involvedObject"]["kind"], each["reason"])
        for each in json.loads(events)["items"]
        if each["source"].get("component") == "scalecurve-operator"
    }
    assert about == {
        ("ScalingExperiment", "Succeeded"),
        ("ScalingTrial", "RankFailed"),
    }


def test_operator_metrics_and_logs(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    Applied.apply(tier, manifest(namespace)).final()
    text = operator.metrics()
    assert 'scalecurve_trials_ended_total{phase="Succeeded",reason=""} 2.0' in text
    assert "scalecurve_reconcile_seconds_count" in text
    assert "scalecurve_operator_leading 1.0" in text
    assert 'scalecurve_experiments{phase="Succeeded"} 1.0' in text
    hanging = Applied.apply(tier, manifest(namespace, name="hanging", play="hang"))
    wait_until(lambda: 'scalecurve_trials{phase="Running"} 1.0' in operator.metrics(), "a running trial")
    assert 'scalecurve_trials{phase="Pending"} 1.0' in operator.metrics()
    change(hanging, cancel=True)
    hanging.final()
    assert 'scalecurve_trials{phase="Running"} 0.0' in operator.metrics()
    assert operator.probe("/healthz") == (200, "ok")
    assert f"{namespace}/e" in operator.output()
