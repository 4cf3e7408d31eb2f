"""From `helm install` to a pulled report, with real pods on two nodes: every runner at every size and layout."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_api.features.horovod.fields import VERSION
from scalecurve_api.spec.trial import TrialPhase
from tests.cluster.applied import Applied
from tests.cluster.cli_desk import SCALECURVE, Desk
from tests.nodes.pod_experiments import KINDS, LAYOUTS, OVER_HOROVOD, experiment
from tools.devcluster.nodes.cluster import RealCluster
from tools.devcluster.nodes.installed import Installed, image_of
from tools.devcluster.waiting import wait_until

_TRIALS = sum(map(len, LAYOUTS.values()))
_LONG_S = 1200
"""Four trials of a framework that takes half a minute to load, on a machine that has other things to do."""

pytestmark = pytest.mark.timeout(_LONG_S + 300)


@pytest.mark.parametrize("kind", KINDS)
def test_trials_run_where_they_were_asked_to(
    installed: Installed, any_cluster: RealCluster, team: str, kind: str, tmp_path: Path, need_image: Any
) -> None:
    need_image(image_of(KINDS[kind]["workload"]))
    desk = Desk(any_cluster, tmp_path, team)  # type: ignore[arg-type]
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(experiment(kind, team)))
    desk("doctor", file, "--cluster")
    any_cluster.kubectl("apply", "-f", str(file))
    applied = Applied(any_cluster, team, kind)  # type: ignore[arg-type]
    status = applied.final(_LONG_S)
    assert (status["phase"], status["counts"]["succeeded"]) == ("Succeeded", _TRIALS), applied.trials()
    reported = desk("report", kind, "--into", "b", "--format", "md")
    assert f"trials fetched: {_TRIALS}" in reported.out
    bundle = open_bundle(tmp_path / "b")
    assert not bundle.problems
    seen = Counter()
    nodes_of = {trial["metadata"]["name"]: trial["status"]["nodes"] for trial in trials(any_cluster, team, kind)}
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
    wait_until(lambda: not applied.left(), "nothing to be left")


def trials(cluster: RealCluster, namespace: str, name: str) -> list[dict[str, Any]]:
    path = f"/apis/scalecurve.dev/v1alpha1/namespaces/{namespace}/scalingtrials"
    found = cluster.rest.call("GET", path)["items"]
    return [each for each in found if each["metadata"]["labels"]["scalecurve.dev/experiment"] == name]


def test_a_bundle_is_laid_out_as_this_machines_engine_does(
    installed: Installed, any_cluster: RealCluster, team: str, tmp_path: Path, need_image: Any
) -> None:
    need_image("worker-mpi")
    desk = Desk(any_cluster, tmp_path, team)  # type: ignore[arg-type]
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(experiment("mpi-allreduce", team, (1, 2), placement={"workersPerNode": 2})))
    any_cluster.kubectl("apply", "-f", str(file))
    assert Applied(any_cluster, team, "mpi-allreduce").final(_LONG_S)["phase"] == "Succeeded"  # type: ignore[arg-type]
    desk("pull", "mpi-allreduce", "--into", "there")
    here = subprocess.run(
        [SCALECURVE, "run", file, "--bundle", "here"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert here.returncode == 0, here.stderr
    desk("report", "here", "there", "--format", "md", "--out", "report")
    assert laid_out(tmp_path / "here") == laid_out(tmp_path / "there")


def test_parameter_servers_end_with_their_trial(
    installed: Installed, any_cluster: RealCluster, team: str, tmp_path: Path, need_image: Any
) -> None:
    """A chief, two servers that never end of themselves, and workers: one TFJob for each trial."""
    need_image("worker-tensorflow")
    name = "tensorflow-servers"
    workload = {
        **KINDS["tensorflow"]["workload"],
        "strategy": "parameter-server",
        "parameterServer": {"servers": 2},
    }
    desk = Desk(any_cluster, tmp_path, team)  # type: ignore[arg-type]
    file = tmp_path / "experiment.yaml"
    placed = {"layouts": ["1x1", "2x1"]}
    tree = experiment("tensorflow", team, (1, 2), workload=workload, placement=placed)
    tree["metadata"]["name"] = name
    file.write_text(json.dumps(tree))
    any_cluster.kubectl("apply", "-f", str(file))
    applied = Applied(any_cluster, team, name)  # type: ignore[arg-type]
    status = applied.final(_LONG_S)
    assert (status["phase"], status["counts"]["succeeded"]) == ("Succeeded", 2), applied.trials()
    desk("pull", name, "--into", "b")
    for trial in open_bundle(tmp_path / "b").trials:
        assert trial.record is not None
        assert len(trial.record.topology) == trial.record.trial.point.workers
        assert trial.record.options["servers"] == 2
    wait_until(lambda: not applied.left(), "nothing to be left")


@pytest.mark.parametrize("name", OVER_HOROVOD)
def test_horovod_adds_up_over_two_nodes(
    installed: Installed, any_cluster: RealCluster, team: str, name: str, tmp_path: Path, need_image: Any
) -> None:
    """Ranks that mpi-operator's launcher starts in two pods, and Horovod's sums between them by MPI."""
    workload, around = OVER_HOROVOD[name]
    need_image(image_of(workload))
    desk = Desk(any_cluster, tmp_path, team)  # type: ignore[arg-type]
    file = tmp_path / "experiment.yaml"
    tree = experiment("mpi-ddp", team, (1, 2), workload=workload, placement={"layouts": ["1x1", "2x1"]})
    tree["metadata"]["name"] = name
    file.write_text(json.dumps(tree))
    any_cluster.kubectl("apply", "-f", str(file))
    applied = Applied(any_cluster, team, name)  # type: ignore[arg-type]
    status = applied.final(_LONG_S)
    assert (status["phase"], status["counts"]["succeeded"]) == ("Succeeded", 2), applied.trials()
    desk("pull", name, "--into", "b")
    found = {
        trial.record.trial.point.workers: trial.record for trial in open_bundle(tmp_path / "b").trials if trial.record
    }
    assert sorted(found) == [1, 2]
    for record in found.values():
        # The library that carried the sums is what Horovod's own timeline says.
        assert (record.backend, record.strategy, record.versions["horovod"]) == ("mpi", around, VERSION)
        assert not [check for check in record.checks if check.passed is False]
    two = found[2]
    assert all(two.parameter_checksums)
    assert len({*two.parameter_checksums}) == 1
    passed = {check.name for check in two.checks if check.passed}
    assert passed >= {"WrongBackend", "WrongStrategy", "ReplicasDiverged"}
    assert [place.rank for place in two.topology] == [0, 1]
    assert len({place.pod for place in two.topology}) == len({place.node for place in two.topology}) == 2
    wait_until(lambda: not applied.left(), "nothing to be left")


def laid_out(bundle: Path) -> set[str]:
    """The files of a bundle that are of the record, by their paths in it."""
    return {"experiment.yaml"} | {str(path.relative_to(bundle)) for path in (bundle / "trials").rglob("*")}
