"""Which cluster a kubeconfig names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from scalecurve_kube.address import ClusterAddress, has_current_context
from scalecurve_kube.blocking import connect
from scalecurve_kube.errors import ClusterError, UnreachableError

pytestmark = pytest.mark.usefixtures("no_cluster")


def kubeconfig(path: Path, name: str, current: bool = True, **context: Any) -> Path:
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.test"}}],
        "users": [{"name": name, "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
        **({"current-context": name} if current else {}),
    }
    path.write_text(yaml.safe_dump(tree))
    return path


def test_contexts_and_their_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = kubeconfig(tmp_path / "one", "one", namespace="ours")
    two = kubeconfig(tmp_path / "two", "two", current=False)
    monkeypatch.setenv("KUBECONFIG", f"{one}:{two}:{tmp_path / 'absent'}")
    assert has_current_context()
    found = connect(ClusterAddress())
    assert (found.namespace, found.name) == ("ours", "https://one.test (context one)")
    assert connect(ClusterAddress(namespace="mine")).namespace == "mine"
    other = connect(ClusterAddress(context="two"))
    assert (other.namespace, other.name) == ("default", "https://two.test (context two)")
    with pytest.raises(ClusterError, match="--context three: not in the kubeconfig, which has one, two"):
        connect(ClusterAddress(context="three"))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "clusters: 3\ncurrent-context: a\n", "\x00"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad").write_text(text)
    with pytest.raises(ClusterError, match="unusable kubeconfig"):
        connect(ClusterAddress(kubeconfig=tmp_path / "bad"))


def test_a_name_that_does_not_resolve_is_said_in_a_line(tmp_path: Path) -> None:
    found = connect(ClusterAddress(kubeconfig=kubeconfig(tmp_path / "one", "one")))
    with pytest.raises(UnreachableError, match=r"no answer from https://one\.test \(context one\): .*one\.test"):
        found.request("GET", "/version")
