"""Nodes that a series keeps to."""

from __future__ import annotations

from typing import Any

from scalecurve_api.spec.job_kinds import Runner
from tests.operator.runners.runner_cases import job


class TestNesting:
    KNOWN = ("c", "a", "b")

    def affinity(self, nesting: str, workers: int) -> dict[str, Any]:
        placement = {"workersPerNode": 1, "nesting": nesting}
        spec = job(Runner.job, workers=workers, nodes=self.KNOWN, placement=placement)["spec"]["template"]["spec"]
        return dict(spec.get("affinity", {}).get("nodeAffinity", {}))

    def required(self, nesting: str, workers: int) -> list[str] | None:
        found = self.affinity(nesting, workers).get("requiredDuringSchedulingIgnoredDuringExecution")
        return found and found["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]

    def preferred(self, nesting: str, workers: int) -> list[str]:
        found = self.affinity(nesting, workers)["preferredDuringSchedulingIgnoredDuringExecution"]
        return list(found[0]["preference"]["matchExpressions"][0]["values"])

    def test_a_smaller_count_stays_on_known_nodes(self) -> None:
        assert self.required("require", 2) == ["c", "a", "b"]
        assert self.preferred("require", 2) == ["c", "a"]

    def test_a_larger_count_needs_further_nodes(self) -> None:
        assert self.required("require", 4) is None
        assert self.preferred("require", 4) == ["c", "a", "b"]

    def test_preferred_only(self) -> None:
        assert self.required("prefer", 2) is None
        assert self.preferred("prefer", 1) == ["c"]

    def test_off(self) -> None:
        assert self.affinity("off", 2) == {}
