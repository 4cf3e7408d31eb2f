"""The API server restarts, watches end, requests are refused or lost: every experiment ends as if nothing had been."""

from __future__ import annotations

import pytest

from tests.cluster.applied import Applied, manifest
from tests.cluster.creations import Creations
from tests.cluster.kills import check, endure
from tests.cluster.operator_process import OperatorProcess, service_account
from tests.cluster.proxy import Call, Fault, Proxy, Refuse, rain
from tests.waiting import consistently, eventually
from tools.devcluster.tier import Tier

STATUSES = (409, 410, 429, 500, 503)
PATIENT = {"LEASE_SECONDS": "30"}
"""Longer than an API server is away: otherwise the operator rightly ends, and is started anew."""


def twelve(namespace: str) -> dict[str, object]:
    """An experiment of twelve trials."""
    return manifest(namespace, workers=(1, 2, 3), repetitions=4)


@pytest.mark.timeout(900)
def test_the_api_server_is_restarted(tier: Tier, namespace: str) -> None:
    restarts: list[int] = []

    def meanwhile(proxy: Proxy, applied: Applied) -> None:
        done = int(applied.status.get("done") or 0)
        if len(restarts) < 3 and done >= 1 + 3 * len(restarts):
            tier.restart("apiserver")
            restarts.append(done)

    endured = endure(tier, twelve(namespace), meanwhile=meanwhile, settings=PATIENT)
    assert len(restarts) == 3
    assert endured.starts == 1


@pytest.mark.timeout(900)
def test_watches_end(tier: Tier, namespace: str) -> None:
    ends: list[tuple[str, int]] = []

    def meanwhile(proxy: Proxy, applied: Applied) -> None:
        if proxy.watches >= 3 and int(applied.status.get("done") or 0) >= len(ends):
            how = "expire" if len(ends) % 2 else "cut"
            ends.append((how, proxy.expire_watches() if how == "expire" else proxy.cut_watches()))

    endured = endure(tier, twelve(namespace), meanwhile=meanwhile, settings=PATIENT)
    assert {how for how, count in ends if count} == {"cut", "expire"}
    assert endured.starts == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_requests_fail_at_random(tier: Tier, namespace: str, rate: float) -> None:
    suffered: list[tuple[Call, Fault]] = []

    def disturb(proxy: Proxy, operator: OperatorProcess) -> None:
        proxy.fault, proxy.faults = rain(7, rate, STATUSES), suffered

    endured = endure(tier, twelve(namespace), disturb)
    assert len(suffered) > rate / 3 * len(endured.calls)
    print(f"{len(suffered)} of {len(endured.calls)} calls, {endured.starts} starts, {endured.seconds:.0f} s")


def test_a_lease_that_is_still_ours_is_not_given_up(tier: Tier, namespace: str) -> None:
    account, refused = service_account(tier, namespace), []

    def fault(call: Call) -> Fault | None:
        if call.kind != "PUT leases" or len(refused) >= 6:
            return None
        refused.append(call)
        return Refuse((409, 410, 500)[len(refused) % 3])

    with (
        Proxy(tier, account) as proxy,
        OperatorProcess(tier, namespace, proxy.kubeconfig, settings=PATIENT) as operator,
    ):
        proxy.fault = fault
        eventually(lambda: len(refused) == 6, "six refusals")
        renewed = len(proxy.calls)
        eventually(lambda: any(call.kind == "PUT leases" for call in proxy.calls[renewed:]), "a renewal")
        consistently(lambda: operator.alive and operator.probe() == (200, "ok"), "it goes on", 5)


def test_a_job_whose_removal_is_refused_is_removed_later(tier: Tier, namespace: str) -> None:
    account = service_account(tier, namespace)
    with (
        Creations(tier, namespace) as created,
        Proxy(tier, account) as proxy,
        OperatorProcess(tier, namespace, proxy.kubeconfig),
    ):
        proxy.fault = lambda call: Refuse(409) if call.kind == "DELETE jobs" and call.nth <= 2 else None
        applied = Applied.apply(tier, manifest(namespace, workers=(1, 2)))
        assert applied.final()["phase"] == "Succeeded"
        check(applied, created, 2, {"-weak-2-2x1-r1-a1"})


def test_it_ends_in_good_order_when_its_watches_do(tier: Tier, namespace: str) -> None:
    """What kopf takes for fatal ends the process, which whoever runs it starts anew; the lease is free at once."""
    account = service_account(tier, namespace)
    with Proxy(tier, account) as proxy, OperatorProcess(tier, namespace, proxy.kubeconfig) as operator:
        proxy.fault = lambda call: Refuse(409) if call.kind in ("LIST jobs", "WATCH jobs") else None
        proxy.expire_watches()
        assert operator.ended() == 1
        assert "the watches have ended" in operator.output()
        assert "the lease is lost" not in operator.output()
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/scalecurve-operator"
        assert not tier.rest.call("GET", lease)["spec"].get("holderIdentity")
