"""kill -9 of the operator at every kind of API call that it makes, before and after the server has acted."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cluster.applied import Applied, manifest
from tests.cluster.creations import Creations
from tests.cluster.kills import Sweep, endure
from tests.cluster.operator_process import OperatorProcess, service_account
from tests.cluster.proxy import Call, Fault, Halt, Proxy
from tests.waiting import eventually
from tools.devcluster.tier import Tier

KINDS = {
    "POST scalingtrials",
    "PATCH scalingtrials/status Starting",
    "POST jobs",
    "LIST pods",
    "GET pods/log",
    "POST configmaps",
    "PATCH scalingtrials/status Succeeded",
    "DELETE jobs",
    "PATCH scalingexperiments/status Succeeded",
    "PUT leases",
    "GET leases",
    *(f"{verb} {kind}" for verb in ("LIST", "WATCH") for kind in ("scalingexperiments", "scalingtrials", "jobs")),
}
"""What no experiment of Jobs gets by without. Services, events and the status Running are not asked for when a job or
the experiment ends while there is no operator."""


@pytest.mark.timeout(900)
def test_killed_at_every_kind_of_call(tier: Tier, namespace: str) -> None:
    sweep = Sweep()

    def disturb(proxy: Proxy, operator: OperatorProcess) -> None:
        sweep.victim = lambda: operator.pid
        proxy.fault = sweep

    endured = endure(tier, manifest(namespace, workers=(1, 2, 3), repetitions=4), disturb)
    print(f"{len(sweep.killed)} kills, {endured.starts} starts, {len(endured.calls)} calls, {endured.seconds:.0f} s")
    assert len(sweep.killed) >= 50
    assert {kind for kind, _ in sweep.points} >= KINDS


def test_a_job_gets_its_service_though_the_operator_was_killed_in_between(tier: Tier, namespace: str) -> None:
    """Without it pods do not find one another. These run for long, so that it is a Service for a job that runs."""
    account = service_account(tier, namespace)
    with Creations(tier, namespace) as created, Proxy(tier, account) as proxy:
        operator = OperatorProcess(tier, namespace, proxy.kubeconfig)
        killed: list[Call] = []

        def fault(call: Call) -> Fault | None:
            if killed or call.kind != "POST services":
                return None
            killed.append(call)
            return Halt(lambda: os.killpg(operator.pid, signal.SIGKILL))

        proxy.fault = fault
        with operator:
            applied = Applied.apply(tier, manifest(namespace, workers=(2, 3), seconds=300))
            eventually(lambda: not operator.alive, "the kill")
            assert not created.counts("services")
            operator.start()
            service = f"service/{killed[0].object}"
            eventually(lambda: service in applied.left(), f"{service} among {applied.left()}")
            assert created.counts("jobs") == {killed[0].object: 1}
