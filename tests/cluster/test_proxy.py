"""The faulty network and the count of creations, on a real API server with a client of our own."""

from __future__ import annotations

import http.client

import pytest

from tests.cluster.creations import Creations
from tests.cluster.proxy import Call, Delay, Fault, Halt, Proxy, Refuse, classify, rain
from tests.waiting import eventually
from tools.devcluster.rest import ApiError, Rest
from tools.devcluster.tier import Tier

STATUSES = (409, 410, 429, 500, 503)


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "expected"),
    [
        ("GET", "/api", {}, b"", ("GET discovery", "/api")),
        ("GET", "/apis/batch/v1", {}, b"", ("GET discovery", "/apis/batch/v1")),
        ("GET", "/apis/batch/v1/namespaces/n/jobs", {"labelSelector": "a"}, b"", ("LIST jobs", "a")),
        ("GET", "/apis/batch/v1/namespaces/n/jobs", {"watch": "true"}, b"", ("WATCH jobs", "")),
        ("GET", "/api/v1/namespaces", {}, b"", ("LIST namespaces", "")),
        ("POST", "/apis/batch/v1/namespaces/n/jobs", {}, b'{"metadata": {"name": "j"}}', ("POST jobs", "j")),
        ("GET", "/api/v1/namespaces/n/pods/p/log", {}, b"", ("GET pods/log", "p")),
        (
            "PATCH",
            "/apis/scalecurve.dev/v1alpha1/namespaces/n/scalingtrials/t/status",
            {},
            b'{"metadata": {"name": "t"}, "status": {"phase": "Running"}}',
            ("PATCH scalingtrials/status Running", "t"),
        ),
    ],
)
def test_kinds(method: str, path: str, query: dict[str, str], body: bytes, expected: tuple[str, str]) -> None:
    assert classify(method, path, query, body) == expected


def test_rain_falls_as_often_as_it_should_and_repeatably() -> None:
    calls = [Call("GET pods", f"p{index}", 1) for index in range(2000)]
    one, again, other = (rain(seed, 0.1, STATUSES) for seed in (1, 1, 2))
    found = [one(call) for call in calls]
    assert found == [again(call) for call in calls] != [other(call) for call in calls]
    assert 120 < sum(fault is not None for fault in found) < 280
    assert {fault.status for fault in found if isinstance(fault, Refuse)} == set(STATUSES)
    assert {fault.forwarded for fault in found if isinstance(fault, Halt)} == {True, False}


def test_faults(tier: Tier, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    faults: dict[str, Fault] = {
        "refused": Refuse(429, retry_after_s=1),
        "lost": Halt(),
        "unanswered": Halt(forwarded=True),
        "late": Delay(0.01),
    }
    with Creations(tier, namespace) as created, Proxy(tier, tier.kubeconfig) as proxy:
        proxy.fault = lambda call: faults.get(call.object)
        rest = Rest(proxy.kubeconfig)
        rest.call("POST", path, {"metadata": {"name": "fine"}})
        rest.call("POST", path, {"metadata": {"name": "late"}})
        with pytest.raises(ApiError, match="429 TooManyRequests: injected"):
            rest.call("POST", path, {"metadata": {"name": "refused"}})
        for name in ("lost", "unanswered"):
            with pytest.raises((OSError, http.client.HTTPException)):
                Rest(proxy.kubeconfig).call("POST", path, {"metadata": {"name": name}})
        rest.call("DELETE", f"{path}/fine")
        rest.call("POST", path, {"metadata": {"name": "fine"}})
        rest.close()
        counts = created.counts("configmaps")
        counts.pop("kube-root-ca.crt", None)
        assert counts == {"fine": 2, "late": 1, "unanswered": 1}
        assert [call.nth for call in proxy.calls if call.object == "fine"] == [1, 1, 2]
        assert {call.object for call, _ in proxy.faults} == set(faults)


@pytest.mark.parametrize("end", ["cut", "expire"])
def test_watches_end(tier: Tier, namespace: str, end: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps?watch=1&fieldSelector=metadata.name=watched"
    with Proxy(tier, tier.kubeconfig) as proxy:
        rest = Rest(proxy.kubeconfig)
        connection = rest._connection()
        connection.request("GET", path)
        answer = connection.getresponse()
        tier.rest.call("POST", path.partition("?")[0], {"metadata": {"name": "watched"}})
        assert b'"ADDED"' in answer.readline()
        assert (proxy.cut_watches if end == "cut" else proxy.expire_watches)() == 1
        if end == "expire":
            assert b'"code": 410' in answer.readline()
        assert answer.readline() == b""
        answer.close()
        connection.close()
        eventually(lambda: proxy.cut_watches() == 0, "no watch")
