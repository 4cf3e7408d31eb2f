"""The chart on a real API server: installed, upgraded, removed; and what its ServiceAccount may then do."""

import itertools
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CASES, CHART, MONITORING, helm, objects
from tests.waiting import PATIENCE_S, eventually
from tools.devcluster.tier import Tier

Rights = dict[tuple[str, str], set[str]]
"""(group, resource) → verbs"""

SERVED: Rights = {
    ("scalecurve.dev", "scalingexperiments"): {"list", "watch", "delete"},
    ("scalecurve.dev", "scalingexperiments/status"): {"patch"},
    ("scalecurve.dev", "scalingtrials"): {"create", "get", "list", "watch"},
    ("scalecurve.dev", "scalingtrials/status"): {"patch"},
    ("batch", "jobs"): {"create", "get", "list", "watch", "delete"},
    ("jobset.x-k8s.io", "jobsets"): {"create", "get", "list", "watch", "delete"},
    ("kubeflow.org", "mpijobs"): {"create", "get", "list", "watch", "delete"},
    ("kubeflow.org", "pytorchjobs"): {"create", "get", "list", "watch", "delete"},
    ("kubeflow.org", "tfjobs"): {"create", "get", "list", "watch", "delete"},
    ("trainer.kubeflow.org", "trainjobs"): {"create", "get", "list", "watch", "delete"},
    ("", "services"): {"create"},
    ("", "configmaps"): {"create"},
    ("", "pods"): {"list"},
    ("", "pods/log"): {"get"},
    ("", "events"): {"create", "list"},
    ("kueue.x-k8s.io", "workloads"): {"list"},
}
"""In a namespace that the operator serves."""
WHOLE_CLUSTER: Rights = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): {"list", "watch"},
    ("", "namespaces"): {"list", "watch"},
}
LEASE: Rights = {
    ("coordination.k8s.io", "leases"): {"create"},
    ("coordination.k8s.io", "leases/scalecurve-operator"): {"get", "update"},
}
"""In the release's own namespace."""
EVERYONE = {"authorization.k8s.io", "authentication.k8s.io"}
"""Groups in which a cluster lets everyone ask about himself."""

_NUMBERS = itertools.count()


@pytest.fixture
def namespace(tier: Tier) -> Iterator[str]:
    """Where a release goes: a fresh namespace at Pod Security's restricted level."""
    name = tier.namespace(f"release-{os.getpid()}-{next(_NUMBERS)}")
    tier.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield name
    command(tier, "uninstall", "scalecurve", "-n", name, "--ignore-not-found")
    tier.rest.raw("DELETE", f"/api/v1/namespaces/{name}")


def command(tier: Tier, *arguments: str | Path) -> str:
    done = subprocess.run(
        [helm(), *arguments],
        env={**os.environ, "KUBECONFIG": str(tier.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(tier: Tier, namespace: str, *arguments: str) -> str:
    """The notes. CRDs that an earlier release kept are taken over, as they must be by a release of another name."""
    options = ("--wait", "--timeout", f"{PATIENCE_S:g}s", "--take-ownership")
    return command(tier, "install", "scalecurve", CHART, "-n", namespace, *options, *arguments)


def everything(tier: Tier) -> set[str]:
    """All objects of the cluster that stay as they are when nobody does anything, CRDs among them."""
    kinds = tier.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    passing = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses"}
    listed = ",".join(sorted(set(kinds) - passing))
    found = set(tier.kubectl("get", listed, "-A", "-o", "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/"
                             "{.metadata.name}{'\\n'}{end}").split())  # fmt: skip
    leases = tier.kubectl("get", "leases", "-A", "-o", "jsonpath={range .items[*]}{.metadata.name} {end}").split()
    return found | {f"Lease//{name}" for name in leases if "scalecurve" in name}


def rights(tier: Tier, namespace: str, account_namespace: str) -> Rights:
    """What the operator's account may do in `namespace`, as `kubectl auth can-i --list` has it."""
    kubeconfig = tier.user(f"system:serviceaccount:{account_namespace}:scalecurve")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = tier.kubectl(
        "create", "--validate=false", "-o", "json", "-f", "-", text=json.dumps(review), kubeconfig=kubeconfig
    )
    status = json.loads(answer)["status"]
    assert not status.get("incomplete")
    found: Rights = defaultdict(set)
    for rule in status["resourceRules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                if group not in EVERYONE:
                    for name in rule.get("resourceNames", [""]):
                        found[group, f"{resource}/{name}".rstrip("/")] |= set(rule["verbs"])
    return dict(found)


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_takes_it_at_the_restricted_level(case: str, tier: Tier, namespace: str) -> None:
    """A dry run by server-side apply. Kinds that only the Prometheus operator brings have no server here."""
    names = ["--namespace", namespace]
    if case in ("namespaced", "everything"):
        names += ["--set", f"namespaces={{{namespace}}}"]
    found = objects(*CASES[case], *names)
    left_out = [each for each in found if each["apiVersion"].startswith(MONITORING)]
    assert {each["kind"] for each in left_out} == (
        {"PodMonitor", "ServiceMonitor", "PrometheusRule"} if case == "everything" else set()
    )
    text = yaml.safe_dump_all([each for each in found if each not in left_out])
    done = tier.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", text=text)
    assert len(done.splitlines()) == len(found) - len(left_out)


def test_install_upgrade_and_uninstall_leave_nothing_but_the_crds(tier: Tier, namespace: str) -> None:
    before = everything(tier)
    notes = install(tier, namespace).partition("NOTES:\n")[2]
    commands = [line for line in notes.splitlines() if line.startswith("  ")]
    assert len(commands) == 3
    assert all(line.startswith("  kubectl -n ") for line in commands)
    experiment = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "kept", "namespace": namespace},
        "spec": {"scaling": {"workers": [1, 2], "batch": {"global": 8}}, "workload": {"program": "torch"}},
    }
    tier.kubectl("apply", "-f", "-", text=json.dumps(experiment))
    take_lease(tier, namespace)

    def pods() -> list[dict[str, Any]]:
        return list(tier.rest.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])

    (old,) = pods()
    upgraded = ("--set", "log.level=DEBUG", "--set", "pools.big=2", "--wait", "--timeout", f"{PATIENCE_S:g}s")
    command(tier, "upgrade", "scalecurve", CHART, "-n", namespace, *upgraded)
    (new,) = [pod for pod in pods() if "deletionTimestamp" not in pod["metadata"]]
    assert new["metadata"]["name"] != old["metadata"]["name"]
    assert lease(tier, namespace)["spec"]["holderIdentity"] == "me", "an upgrade leaves the lease to its holder"

    command(tier, "uninstall", "scalecurve", "-n", namespace, "--wait", "--timeout", f"{PATIENCE_S:g}s")
    tier.kubectl("delete", "scalingexperiment", "kept", "-n", namespace)
    kept = {f"CustomResourceDefinition//{kind}.scalecurve.dev" for kind in ("scalingexperiments", "scalingtrials")}
    served = {"APIService//v1alpha1.scalecurve.dev"}
    eventually(lambda: everything(tier) - before <= kept | served, "the state before, and the CRDs")
    assert everything(tier) >= kept

    command(tier, "install", "scalecurve", CHART, "-n", namespace)  # over its own CRDs it needs no leave


def lease(tier: Tier, namespace: str) -> dict[str, Any]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/scalecurve-operator"
    return dict(tier.rest.call("GET", path))


def take_lease(tier: Tier, namespace: str) -> None:
    """As the operator does it: read it, put a holder in, with its own rights."""
    found = lease(tier, namespace)
    assert found["spec"] == {}
    found["spec"] = {"holderIdentity": "me", "leaseDurationSeconds": 10}
    kubeconfig = tier.user(f"system:serviceaccount:{namespace}:scalecurve")
    tier.kubectl("replace", "-f", "-", text=json.dumps(found), kubeconfig=kubeconfig)


def test_by_default_the_account_may_nothing_outside_the_namespace_of_the_release(tier: Tier, namespace: str) -> None:
    install(tier, namespace)
    assert rights(tier, namespace, namespace) == SERVED | LEASE
    for other in ("default", "kube-system"):
        assert rights(tier, other, namespace) == {}


def test_the_account_may_do_what_the_operator_does_and_nothing_else(tier: Tier, namespace: str) -> None:
    install(tier, namespace, "--set", "clusterWide=true")
    assert rights(tier, namespace, namespace) == SERVED | WHOLE_CLUSTER | LEASE
    assert rights(tier, "default", namespace) == SERVED | WHOLE_CLUSTER


def test_an_operator_of_some_namespaces_may_nothing_elsewhere(tier: Tier, namespace: str) -> None:
    served = tier.namespace(f"{namespace}-served")
    install(tier, namespace, "--set", f"namespaces={{{served}}}")
    assert rights(tier, served, namespace) == SERVED
    assert rights(tier, namespace, namespace) == LEASE
    assert rights(tier, "default", namespace) == {}
    tier.rest.raw("DELETE", f"/api/v1/namespaces/{served}")


def test_users_of_the_clusters_own_roles_may_work_with_experiments(tier: Tier, namespace: str) -> None:
    install(tier, namespace)
    for user, role, verbs in (("ann", "edit", {"create", "get", "delete"}), ("bob", "view", {"get", "list"})):
        tier.kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}", "-n", namespace)
        kubeconfig = tier.user(user)
        for verb in ("create", "get", "list", "delete"):
            allowed = "yes" if verb in verbs or role == "edit" else "no"
            eventually(partial(answers, tier, kubeconfig, namespace, verb, allowed), f"{user} {verb}: {allowed}")
        assert may(tier, kubeconfig, namespace, "patch", "scalingtrials") == "no"


def answers(tier: Tier, kubeconfig: Path, namespace: str, verb: str, allowed: str) -> bool:
    return may(tier, kubeconfig, namespace, verb) == allowed


def may(tier: Tier, kubeconfig: Path, namespace: str, verb: str, resource: str = "scalingexperiments") -> str:
    asked = ("auth", "can-i", verb, f"{resource}.scalecurve.dev", "-n", namespace)
    try:
        return tier.kubectl(*asked, kubeconfig=kubeconfig).strip()
    except subprocess.CalledProcessError as error:
        return str(error.stdout).strip()
