"""Nodes that a series keeps to."""

from __future__ import annotations

from typing import Any, ClassVar

from scalecurve_api.spec.job_kinds import Runner
from tests.operator.runners.runner_cases import job


class TestNesting:
    KNOWN = ("c", "a", "b")

    def affinity(self, nesting: str, workers: int, **more: Any) -> dict[str, Any]:
        placement = {"workersPerNode": 1, "nesting": nesting}
        fields = {"workers": workers, "nodes": self.KNOWN, "placement": placement} | more
        spec = job(Runner.job, **fields)["spec"]["template"]["spec"]
        return dict(spec.get("affinity", {}).get("nodeAffinity", {}))

    def required(self, nesting: str, workers: int) -> list[str] | None:
        """Nodes by name: a term each, any of which may hold."""
        found = self.affinity(nesting, workers).get("requiredDuringSchedulingIgnoredDuringExecution")
        return found and [self.node(term) for term in found["nodeSelectorTerms"]]

    def preferred(self, nesting: str, workers: int, **more: Any) -> list[str]:
        found = self.affinity(nesting, workers, **more)["preferredDuringSchedulingIgnoredDuringExecution"]
        return [self.node(entry["preference"]) for entry in found]

    @staticmethod
    def node(term: dict[str, Any]) -> str:
        (field,) = term["matchFields"]
        (name,) = field["values"]
        assert (field["key"], field["operator"]) == ("metadata.name", "In")
        return str(name)

    def test_a_smaller_count_stays_on_known_nodes(self) -> None:
        assert self.required("require", 2) == ["c", "a", "b"]
        assert self.preferred("require", 2) == ["b", "c"]

    def test_a_larger_count_needs_further_nodes(self) -> None:
        assert self.required("require", 4) is None
        assert self.preferred("require", 4) == ["b", "c", "a"]

    def test_preferred_only(self) -> None:
        assert self.required("prefer", 2) is None
        assert self.preferred("prefer", 1) == ["b"]

    def test_off(self) -> None:
        assert self.affinity("off", 2) == {}

    def test_the_next_repetition_begins_at_another_node(self) -> None:
        firsts = [self.preferred("prefer", 1, repetition=repetition)[0] for repetition in range(3)]
        assert sorted(firsts) == ["a", "b", "c"]

    def test_many_nodes(self) -> None:
        """Beyond the 64 that a status once listed."""
        known = tuple(f"node-{index}" for index in range(100))
        affinity = self.affinity("require", 90, nodes=known)
        assert len(affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]) == 100
        assert len(self.preferred("require", 90, nodes=known)) == 90

    def test_a_further_session_prefers_other_nodes_than_those_before(self) -> None:
        for nesting, nodes in (("prefer", ()), ("off", ()), ("require", ())):
            (term,) = self.affinity(nesting, 1, nodes=nodes, earlier_nodes=("a", "b"))[
                "preferredDuringSchedulingIgnoredDuringExecution"
            ]
            assert term["preference"]["matchFields"] == [
                {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in ("a", "b")
            ]
        nested, other = self.affinity("prefer", 1, nodes=("c",), earlier_nodes=("a", "c"))[
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]
        assert nested["weight"] > other["weight"], "its own nodes count more"
        assert [field["values"] for field in other["preference"]["matchFields"]] == [["a"]]


class TestAPatch:
    """``pod.template`` replaces lists; ours are kept beside them."""

    def affinity(self, patch: Any) -> dict[str, Any]:
        spec = job(
            Runner.job,
            workers=2,
            nodes=("a", "b"),
            placement={"workersPerNode": 1, "nesting": "require"},
            pod={"template": {"spec": {"affinity": patch}}},
        )["spec"]["template"]["spec"]
        return dict(spec.get("affinity") or {})

    def test_alternatives_of_nodes_each_keep_to_the_series(self) -> None:
        racks = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [name]}]} for name in ("r1", "r2")]
        kind = "requiredDuringSchedulingIgnoredDuringExecution"
        found = self.affinity({"nodeAffinity": {kind: {"nodeSelectorTerms": racks}}})
        terms = found["nodeAffinity"][kind]["nodeSelectorTerms"]
        pairs = {(term["matchExpressions"][0]["values"][0], term["matchFields"][0]["values"][0]) for term in terms}
        assert pairs == {("r1", "a"), ("r1", "b"), ("r2", "a"), ("r2", "b")}
        assert kind in found["podAntiAffinity"]

    def test_further_terms_of_pods(self) -> None:
        term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"team": "a"}}}
        kind = "requiredDuringSchedulingIgnoredDuringExecution"
        assert len(self.affinity({"podAntiAffinity": {kind: [term]}})["podAntiAffinity"][kind]) == 2

    def test_what_is_removed_stays_removed(self) -> None:
        assert "podAntiAffinity" not in self.affinity({"podAntiAffinity": None})
        assert self.affinity(None) == {}


class TestTopologyAwareQueue:
    """With Kueue's annotations it picks the nodes, so nothing of ours may forbid what it picks."""

    def template(self, pods_per_node: int, annotations: dict[str, str], **more: Any) -> dict[str, Any]:
        placement = {"workersPerNode": 2, "podsPerNode": pods_per_node}
        pod = {"annotations": annotations}
        tree = job(Runner.job, workers=4, placement=placement, pod=pod, **{"queue": "team", **more})
        return dict(tree["spec"]["template"])

    RACK: ClassVar = {"kueue.x-k8s.io/podset-required-topology": "rack"}

    def test_one_pod_a_node(self) -> None:
        template = self.template(1, self.RACK)
        assert "affinity" not in template["spec"]
        assert template["metadata"]["annotations"] == self.RACK

    def test_two_pods_a_node_are_a_slice(self) -> None:
        template = self.template(2, self.RACK)
        assert "topologySpreadConstraints" not in template["spec"]
        assert template["metadata"]["annotations"] == {
            **self.RACK,
            "kueue.x-k8s.io/podset-slice-required-topology": "kubernetes.io/hostname",
            "kueue.x-k8s.io/podset-slice-size": "2",
        }

    def test_slices_of_the_users_own_stay(self) -> None:
        own = {**self.RACK, "kueue.x-k8s.io/podset-slice-required-topology": "rack",
               "kueue.x-k8s.io/podset-slice-size": "4"}  # fmt: skip
        assert self.template(2, own)["metadata"]["annotations"] == own

    def test_without_a_queue_the_annotation_is_anyones(self) -> None:
        assert "affinity" in self.template(1, self.RACK, queue=None)["spec"]
