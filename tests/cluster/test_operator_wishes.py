"""What a user asks of an experiment besides its trials: to wait, to stop, to go, to take turns, to try again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from scalecurve_api.spec.job_kinds import Runner
from tests.cluster.applied import Applied, Object, manifest, next_second
from tests.cluster.operator_process import OperatorProcess
from tests.waiting import consistently, eventually
from tools.devcluster.rest import ApiError
from tools.devcluster.tier import Tier

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
    applied = Applied.apply(tier, manifest(namespace, repetitions=2, seconds=3))
    eventually(lambda: "Running" in phases(applied), "a trial that runs")
    change(applied, suspend=True)
    eventually(lambda: applied.status.get("phase") == "Suspended" and set(phases(applied)) == {"Succeeded"}, "its end")
    assert condition(applied, "Admitted")["reason"] == "Suspended"
    applied.gone()
    done = phases(applied)
    assert len(done) < 4
    consistently(lambda: phases(applied) == done, "nothing more was started", 1)
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

    def hangs() -> bool:
        trials = applied.trials().items()
        return any("-2-2x1-" in name and status.get("phase") == "Running" for name, status in trials)

    eventually(hangs, "a trial that hangs")
    done = phases(applied).count("Succeeded")
    change(applied, cancel=True)
    status = applied.final()
    assert status["phase"] == "Cancelled"
    assert status["counts"]["cancelled"] == 4 - done
    assert phases(applied) == ["Cancelled"] + ["Succeeded"] * done
    applied.gone()


def test_experiments_of_a_pool_take_turns_in_the_order_they_came(
    tier: Tier, namespace: str, operator: OperatorProcess
) -> None:
    all_of_them = []
    for name, play in (("a", "hang"), ("b", "succeed"), ("c", "succeed")):
        all_of_them.append(Applied.apply(tier, manifest(namespace, name=name, play=play)))
        next_second()
    eventually(lambda: condition(all_of_them[2], "Admitted").get("status") == "False", "waiting")
    said = condition(all_of_them[2], "Admitted")
    assert said["reason"] == "WaitingForPool"
    assert f"{namespace}/a" in said["message"] or f"{namespace}/b" in said["message"]
    change(all_of_them[0], cancel=True)
    spans = [(status["startedAt"], status["endedAt"]) for status in (each.final() for each in all_of_them)]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_pool_of_two_lets_two_run_side_by_side(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    both = [
        Applied.apply(tier, manifest(namespace, name=name, pool="two", play="hang@workers=1", deadlineSeconds=600))
        for name in ("a", "b")
    ]
    eventually(lambda: all("Running" in phases(each) for each in both), "both running at once")
    for each in both:
        change(each, cancel=True)
        each.final()


def test_parallelism_runs_trials_side_by_side(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    applied = Applied.apply(tier, manifest(namespace, repetitions=2, play="hang", parallelism=3))
    eventually(lambda: phases(applied).count("Running") == 3, "three at once")
    consistently(lambda: len(applied.trials()) == 3, "no fourth beside them", 0.5)
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

    def gone() -> bool:
        try:
            tier.rest.call("GET", applied.path)
        except ApiError as error:
            return error.status == 404
        return False

    eventually(gone, "its end")
    assert 'scalecurve_trials_ended_total{phase="Succeeded",reason=""} 2.0' in operator.metrics(), "it ran before"
    eventually(lambda: not applied.trials() and not applied.records(), "what it owned")


def test_a_started_spec_is_kept_by_the_api_server(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    applied = Applied.apply(tier, manifest(namespace, play="hang"))
    eventually(lambda: applied.status.get("phase") == "Running", "its start")
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

    def about() -> set[tuple[str, str]]:
        events = tier.kubectl("get", "events", "-n", namespace, "-o", "json")
        return {
            (each["involvedObject"]["kind"], each["reason"])
            for each in json.loads(events)["items"]
            if each["source"].get("component") == "scalecurve-operator"
        }

    # An event follows the status that it tells of.
    expected = {("ScalingExperiment", "Succeeded"), ("ScalingTrial", "RankFailed")}
    eventually(lambda: about() >= expected, "both events", log=lambda: str(about()))
    assert about() == expected


def test_operator_metrics_and_logs(tier: Tier, namespace: str, operator: OperatorProcess) -> None:
    Applied.apply(tier, manifest(namespace)).final()

    def exposes(line: str) -> None:
        eventually(lambda: line in operator.metrics(), line, log=operator.metrics)

    exposes('scalecurve_trials_ended_total{phase="Succeeded",reason=""} 2.0')
    exposes("scalecurve_reconcile_seconds_count")
    exposes("scalecurve_operator_leading 1.0")
    exposes('scalecurve_experiments{phase="Succeeded"} 1.0')
    hanging = Applied.apply(tier, manifest(namespace, name="hanging", play="hang"))
    exposes('scalecurve_trials{phase="Running"} 1.0')
    exposes('scalecurve_trials{phase="Pending"} 1.0')
    change(hanging, cancel=True)
    hanging.final()
    exposes('scalecurve_trials{phase="Running"} 0.0')
    assert operator.probe("/healthz") == (200, "ok")
    assert f"{namespace}/e" in operator.output()
