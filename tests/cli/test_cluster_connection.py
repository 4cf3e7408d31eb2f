"""What is said where no cluster can be asked, and how watching goes on while one does not answer."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from scalecurve.cli.watch import _picture
from scalecurve.cluster import watch as watching
from scalecurve.cluster.experiments import ExperimentNotFoundError, Watched, split
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_kube.address import has_current_context
from scalecurve_kube.blocking import BlockingCluster
from scalecurve_kube.errors import ApiStatusError, ClusterError

from .conftest import Desk

pytestmark = pytest.mark.usefixtures("no_cluster")


def test_without_a_kubeconfig(desk: Desk) -> None:
    said = desk.here("status", "absent", code=2).err
    assert said == (
        "scalecurve: absent: no such folder, and no cluster to look in: "
        "no kubeconfig: set KUBECONFIG, or use --kubeconfig\n"
    )
    assert "no kubeconfig" in desk.here("status", "absent", "-n", "mine", code=3).err
    assert "no kubeconfig" in desk.here("doctor", "--cluster", code=3).err
    assert not has_current_context()


def test_without_the_client(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    monkeypatch.setitem(sys.modules, "kubernetes.aio", None)
    monkeypatch.delitem(sys.modules, "scalecurve_kube.login", raising=False)
    said = desk.here("pull", "absent", "--context", "mine", code=3).err
    assert said.endswith("pip install -e '.[cluster]' in the clone\n")


def test_a_path_is_never_a_name_of_an_experiment(desk: Desk) -> None:
    for given in ("results/absent", "Absent", "a" * 41):
        assert "expected a folder written by `scalecurve run`" in desk.here("status", given, code=2).err
    (desk.folder / "there").mkdir()
    here = [desk.folder / "there", Path("absent"), Path("a/b")]
    assert split(here) == ([here[0], here[2]], ["absent"])


EXPERIMENT = ScalingExperiment.model_validate(
    {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "seen", "uid": "1"},
        "spec": {"scaling": {"workers": [1], "batch": {"global": 8}}},
    }
)


def seen(phase: str, **status: Any) -> Watched:
    return Watched(EXPERIMENT, "ns", {"phase": phase, **status})


def test_watching_outlives_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        ClusterError("no answer"),
        ApiStatusError(503, "ServiceUnavailable", "busy"),
        seen("Running", done=1),
        seen("Succeeded"),
    ]

    def answer(cluster: Any, name: str) -> Watched:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(watching, "read", answer)
    shown: list[str] = []
    said: list[str] = []
    cluster = cast(BlockingCluster, SimpleNamespace(namespace="ns", name="test"))
    ended = watching.watch(
        cluster, seen("Pending"), lambda w: shown.append(w.phase), said.append, sleep=lambda seconds: None
    )
    assert ended.phase == "Succeeded"
    assert shown == ["Pending", "Pending", "Pending", "Running", "Succeeded"]
    assert said == ["no answer", "the API server refused the request (503 ServiceUnavailable): busy"]


@pytest.mark.parametrize("error", [ExperimentNotFoundError("gone"), ApiStatusError(403, "Forbidden", "no longer")])
def test_watching_ends_where_nothing_more_can_be_seen(monkeypatch: pytest.MonkeyPatch, error: ClusterError) -> None:
    def refuse(cluster: Any, name: str) -> Watched:
        raise error

    monkeypatch.setattr(watching, "read", refuse)
    cluster = cast(BlockingCluster, SimpleNamespace(namespace="ns", name="test"))
    with pytest.raises(ClusterError):
        watching.watch(cluster, seen("Running"), lambda w: None, print, sleep=lambda seconds: None)


def test_the_live_picture() -> None:
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(
            _picture(
                seen(
                    "Running",
                    message="1 of 4 trials done",
                    total=4,
                    done=1,
                    current=[{"name": "seen-a", "point": "weak-2-1x2", "workers": 2, "phase": "Starting"}],
                    headlines=[{"series": "weak", "workers": 1, "efficiency": "100.0 %"}],
                    conditions=[
                        {"type": "Accepted", "status": "True", "reason": "Valid", "message": "4 trials planned"},
                        {"type": "Stalled", "status": "True", "reason": "JobWaiting", "message": "Insufficient gpu"},
                    ],
                )
            )
        )
    shown = console.export_text()
    assert "seen in ns: Running, 1 of 4 trials done" in shown
    assert "weak-2-1x2" in shown
    assert "100.0 %" in shown
    assert "Stalled=True JobWaiting: Insufficient gpu" in shown
    assert "Accepted" not in shown
