"""A real Prometheus as a process, and what it answers.

with PrometheusServer(folder, scrape_configs, rules) as prometheus:
    prometheus.instant("up")
"""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.waiting import PATIENCE_S
from tools.devcluster import toolchain
from tools.devcluster.components import Component
from tools.devcluster.ports import Ports


@dataclass(frozen=True)
class Series:
    """What a query gives: labels, and points of Unix seconds and value."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def last(self) -> float:
        """The last value."""
        return self.points[-1][1]


class QueryError(ValueError):
    """A query that Prometheus refuses, with its reason."""


def lacking() -> str | None:
    """Why no Prometheus can be run here, in one line; None where it can."""
    if toolchain.missing(["prometheus"]):
        return "not built: prometheus; `python tests/cluster/toolchain.py prometheus`"
    return None


class PrometheusServer(Component):
    """Scrapes what `scrape_configs` say and evaluates the groups of `rules`, every second unless they say otherwise."""

    def __init__(
        self, folder: Path, scrape_configs: Sequence[Mapping[str, Any]], rules: Mapping[str, Any] | None = None
    ) -> None:
        self._ports = Ports()
        self.url = f"http://127.0.0.1:{self._ports.take()}"
        config: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": list(scrape_configs),
        }
        if rules:
            (folder / "rules.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
            config["rule_files"] = ["rules.yaml"]
        file = folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        command = [str(toolchain.binary("prometheus")), f"--config.file={file}"]
        command += [f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn"]
        super().__init__("prometheus", command, folder / "prometheus.log", self._is_up, {"GOMAXPROCS": "2"})

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait(PATIENCE_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.last_lines(40))
        self.close()

    def close(self) -> None:
        """Kill it and give its port back."""
        self.kill()
        self._ports.release()

    def instant(self, query: str, at: float | None = None) -> list[Series]:
        """The query at one moment (Unix seconds; now, where left out)."""
        answer = self._ask("query", {"query": query, **({} if at is None else {"time": f"{at:.3f}"})})
        return [Series(each["metric"], _points([each["value"]])) for each in answer["result"]]

    def over(self, query: str, start: float, end: float, step: float) -> list[Series]:
        """The query from `start` to `end`, every `step` seconds."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        answer = self._ask("query_range", {"query": query, **times})
        return [Series(each["metric"], _points(each["values"])) for each in answer["result"]]

    def targets(self) -> list[dict[str, Any]]:
        """Targets that are scraped: labels, discovered labels, health, last error."""
        return list(self._ask("targets", {"state": "active"})["activeTargets"])

    def _ask(self, what: str, parameters: Mapping[str, str]) -> Any:
        data = urllib.parse.urlencode(parameters)
        # A query is too long for an address now and then; targets are only to be had by GET.
        url, body = (f"{self.url}/api/v1/{what}", data.encode())
        try:
            request = urllib.request.Request(f"{url}?{data}" if what == "targets" else url)
            with urllib.request.urlopen(request, None if what == "targets" else body, timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise QueryError(f"{json.load(error).get('error')}: {parameters.get('query', what)}") from None

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=PATIENCE_S) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False


def _points(values: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values if not math.isnan(float(value))]
