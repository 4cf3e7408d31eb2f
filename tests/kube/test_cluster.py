"""Requests to an API server that is busy, lost, or none at all; over a real socket, from a synchronous caller."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalecurve_kube import cluster as clusters
from scalecurve_kube.address import ClusterAddress
from scalecurve_kube.blocking import BlockingCluster, connect
from scalecurve_kube.errors import ApiStatusError, ClusterError, UnreachableError
from scalecurve_kube.resources import CONFIG_MAPS, NODES

Answer = tuple[int, dict[str, str], Any]


class Server(ThreadingHTTPServer):
    """Gives one answer after the other, and keeps what was requested."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization")))
        status, headers, body = self.server.answers.pop(0)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def kubeconfig(folder: Path, port: int, user: dict[str, Any]) -> Path:
    context = {"cluster": "c", "user": "u", "namespace": "team a"}
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": context}],
        "current-context": "c",
    }
    (folder / "config").write_text(yaml.safe_dump(tree))
    return folder / "config"


@pytest.fixture
def cluster(server: Server, tmp_path: Path) -> BlockingCluster:
    return connect(ClusterAddress(kubeconfig=kubeconfig(tmp_path, server.server_port, {"token": "t"})))


def test_objects_and_pages(server: Server, cluster: BlockingCluster) -> None:
    server.answers = [
        (200, {}, {"metadata": {"name": "a"}}),
        (404, {}, {"reason": "NotFound"}),
        (200, {}, {"items": [1], "metadata": {"continue": "next"}}),
        (200, {}, {"items": [2], "metadata": {}}),
        (404, {}, {}),
    ]
    assert cluster.get(CONFIG_MAPS, "a") == {"metadata": {"name": "a"}}
    assert cluster.get(CONFIG_MAPS, "b") is None
    assert cluster.list(NODES, all_namespaces=True) == [1, 2]
    assert cluster.lookup("/apis/none") is None
    paths = [path for _, path, _ in server.requests]
    assert paths == [
        "/api/v1/namespaces/team%20a/configmaps/a",
        "/api/v1/namespaces/team%20a/configmaps/b",
        "/api/v1/nodes?limit=250",
        "/api/v1/nodes?limit=250&continue=next",
        "/apis/none",
    ]


def test_a_busy_server_is_asked_again(server: Server, cluster: BlockingCluster) -> None:
    server.answers = [(429, {"Retry-After": "0"}, {}), (503, {}, b"down"), (200, {}, {"ok": True})]
    assert cluster.request("POST", "/x", {"a": 1}) == {"ok": True}
    assert [method for method, _, _ in server.requests] == ["POST"] * 3


def test_a_refusal_has_the_servers_words(server: Server, cluster: BlockingCluster) -> None:
    server.answers = [(403, {}, {"reason": "Forbidden", "message": "no"}), (400, {}, b"<html>\n  bad")]
    with pytest.raises(ApiStatusError, match=r"^the API server refused the request \(403 Forbidden\): no$"):
        cluster.get(CONFIG_MAPS, "a")
    with pytest.raises(ApiStatusError, match=r"^the API server refused the request \(400\): <html> bad$"):
        cluster.get(CONFIG_MAPS, "a")


@pytest.mark.parametrize("body", [b"<html>", b"[]"])
def test_something_else_answers(server: Server, cluster: BlockingCluster, body: bytes) -> None:
    server.answers = [(200, {}, body)]
    with pytest.raises(ClusterError, match="does not answer like a Kubernetes API server"):
        cluster.request("GET", "/version")


def test_nobody_answers(server: Server, cluster: BlockingCluster) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(
        UnreachableError,
        match=rf"no answer from http://127.0.0.1:{server.server_port} \(context c\): Connection refused$",
    ):
        cluster.request("GET", "/version")


def test_credentials_that_expired_are_renewed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login plugin is run again, once: a watch outlives its token."""
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/runs\n"
        'echo "{\\"apiVersion\\": \\"client.authentication.k8s.io/v1\\", \\"kind\\": \\"ExecCredential\\", '
        f'\\"status\\": {{\\"token\\": \\"token-$(wc -l < {tmp_path}/runs | tr -d " ")\\"}}}}"\n'
    )
    plugin.chmod(0o755)
    login = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    cluster = connect(ClusterAddress(kubeconfig=kubeconfig(tmp_path, server.server_port, login)))
    server.answers = [(401, {}, {"reason": "Unauthorized"}), (200, {}, {}), (401, {}, {}), (401, {}, {})]
    assert cluster.request("GET", "/version") == {}
    assert [token for _, _, token in server.requests] == ["Bearer token-1", "Bearer token-2"]
    with pytest.raises(ApiStatusError, match=r"\(401\)"):
        cluster.request("GET", "/version")
    assert clusters.PAGE_SIZE == 250
