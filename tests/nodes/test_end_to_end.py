"""From `helm install` to a pulled report, with real pods on two nodes: every runner at every size and layout."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from applied import Applied
from cli_desk import Desk
from installed import Installed
from nodes import RealCluster
from pod_experiments import KINDS, LAYOUTS, experiment, image_of

from scalebench.bundle import open_bundle
from scalebench_api.trial import TrialPhase

_TRIALS = sum(map(len, LAYOUTS.values()))
_LONG_S = 1200
"""Four trials of a framework that takes half a minute to load, on a machine that has other things to do."""

pytestmark = pytest.mark.timeout(_LONG_S + 300)


@pytest.mark.parametrize("kind", KINDS)
def test_trials_run_where_they_were_asked_to(
    installed: Installed, real_cluster: RealCluster, team: str, kind: str, tmp_path: Path, need_image: Any
) -> None:
    need_image(image_of(kind))
    desk = Desk(real_cluster, tmp_path, team)  # type: ignore[arg-type]
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(experiment(kind, team)))
    desk("doctor", file, "--cluster")
    real_cluster.kubectl("apply", "-f", str(file))
    applied = Applied(real_cluster, team, kind)  # type: ignore[arg-type]
    status = applied.final(_LONG_S)
    assert (status["phase"], status["counts"]) == ("Succeeded", {"succeeded": _TRIALS}), applied.trials()
    reported = desk("report", kind, "--into", "b", "--format", "md")
    assert f"trials fetched: {_TRIALS}" in reported.out
    bundle = open_bundle(tmp_path / "b")
    assert not bundle.problems
    seen = Counter()
    nodes_of = {trial["metadata"]["name"]: trial["status"]["nodes"] for trial in trials(real_cluster, team, kind)}
    for trial in bundle.trials:
        assert trial.phase is TrialPhase.succeeded
        assert trial.record is not None
        point, places = trial.record.trial.point, trial.record.topology
        seen[point.layout] += 1
        assert [place.rank for place in places] == list(range(point.workers))
        nodes = [place.node for place in places]
        # Ranks fill one node after the other, and each pod once.
        assert Counter(nodes) == dict.fromkeys(set(nodes), point.workers_per_node)
        assert len(set(nodes)) == point.nodes
        pods = [pod for pod, _ in itertools.groupby(places, key=lambda place: place.pod)]
        assert len(pods) == point.nodes
        assert len({(place.pod, place.node) for place in places}) == point.nodes
        assert nodes_of[f"{kind}-{trial.name}"] == list(dict.fromkeys(nodes))
        assert [place.local_rank for place in places] == list(range(point.workers_per_node)) * point.nodes
    assert seen == {layout: 1 for layouts in LAYOUTS.values() for layout in layouts}
    assert (tmp_path / "b" / "report" / "report.md").stat().st_size > 1000
    left = applied.left()
    assert not {each for each in left if not each.startswith("ConfigMap")}


def trials(cluster: RealCluster, namespace: str, name: str) -> list[dict[str, Any]]:
    path = f"/apis/scalebench.dev/v1alpha1/namespaces/{namespace}/scalingtrials"
    found = cluster.rest.call("GET", path)["items"]
    return [each for each in found if each["metadata"]["labels"]["scalebench.dev/experiment"] == name]
