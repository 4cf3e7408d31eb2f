"""Replacing the operator's pod, whatever moments the API server shows; no cluster is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.nodes.operator_pods import replace_operator


def _pod(name: str, created: str, ready: bool) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "status": {"containerStatuses": [{"ready": ready}]},
    }


def test_the_moment_without_any_pod_is_waited_out() -> None:
    old = _pod("old", "2026-11-22T10:00:00Z", True)
    moments = [[old], [], [_pod("new", "2026-11-22T10:00:05Z", False)], [_pod("new", "2026-11-22T10:00:05Z", True)]]
    deleted: list[tuple[str, ...]] = []
    cluster = SimpleNamespace(
        rest=SimpleNamespace(call=lambda *_: {"items": moments.pop(0)}),
        kubectl=lambda *arguments: deleted.append(arguments),
    )
    replace_operator(cluster)  # type: ignore[arg-type]
    assert moments == []
    assert "old" in deleted[0]
