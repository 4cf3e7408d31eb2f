"""How an operator is set up: read once from the environment, which the chart fills in."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from scalecurve_api.programs.workload import Program

DEFAULT_SLOTS = 1
_MOST_RECORD_BYTES = 50_000_000
"""What the ConfigMaps that a trial's status can name hold, with room to spare."""
_IMAGES = "ghcr.io/scalecurve"
_DEFAULT_IMAGES = {
    Program.torch: f"{_IMAGES}/worker-torch:latest",
    Program.allreduce: f"{_IMAGES}/worker-torch:latest",
    Program.custom: f"{_IMAGES}/worker-torch:latest",
    Program.tensorflow: f"{_IMAGES}/worker-tensorflow:latest",
    Program.horovod: f"{_IMAGES}/worker-horovod:latest",
}


class SettingsError(ValueError):
    """A variable that cannot be understood; the message names it, what was given and what is allowed."""


@dataclass(frozen=True)
class Settings:
    """Everything about an operator that is not in the cluster. Times are in seconds."""

    namespaces: tuple[str, ...] = ()
    """watched namespaces; empty is the whole cluster"""
    pools: Mapping[str, int] = field(default_factory=dict)
    """pool -> experiments that may hold it at once; a pool not named has ``DEFAULT_SLOTS``"""
    images: Mapping[str, str] = field(default_factory=lambda: {p.value: image for p, image in _DEFAULT_IMAGES.items()})
    identity: str = "operator"
    lease_namespace: str = "default"
    lease_name: str = "scalecurve-operator"
    lease_seconds: float = 10.0
    metrics_port: int = 8080
    health_port: int = 8081
    starting_seconds: float = 30.0
    """how long a job may be Starting before its pods and events are looked at, and how often from then on"""
    record_bytes: int = 4 << 20
    """of one trial; in base64 it stays under the 10 MiB at which a kubelet rotates a log and serves only the rest"""
    worker_metrics_port: int = 9400
    """port of a pod's first worker's /metrics; 0 is none"""
    linger_seconds: float = 0.0
    """how long workers stay up after their last step: one scrape interval, where they are scraped"""
    log_level: str = "INFO"
    log_format: str = "json"

    def slots(self, pool: str) -> int:
        """How many experiments may hold ``pool`` at once."""
        return self.pools.get(pool, DEFAULT_SLOTS)


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from ``SCALECURVE_*`` variables; what is unset or empty keeps its default.

    Raises:
        SettingsError: naming the variable.
    """
    get = _Reader(environment)
    images = {
        program.value: get.text(f"IMAGE_{program.value.upper()}", default)
        for program, default in _DEFAULT_IMAGES.items()
    }
    namespace = environment.get("POD_NAMESPACE") or "default"
    return Settings(
        namespaces=tuple(filter(None, (part.strip() for part in get.text("NAMESPACES", "").split(",")))),
        pools=get.pools("POOLS"),
        images=images,
        identity=environment.get("POD_NAME") or f"{platform.node()}-{os.getpid()}",
        lease_namespace=get.text("LEASE_NAMESPACE", namespace),
        lease_name=get.text("LEASE_NAME", "scalecurve-operator"),
        lease_seconds=get.number("LEASE_SECONDS", 10.0, least=1.0, most=3600),
        metrics_port=get.whole("METRICS_PORT", 8080, least=0, most=65_535),
        health_port=get.whole("HEALTH_PORT", 8081, least=0, most=65_535),
        starting_seconds=get.number("STARTING_SECONDS", 30.0, least=0.1),
        record_bytes=get.whole("RECORD_BYTES", 4 << 20, least=1 << 16, most=_MOST_RECORD_BYTES),
        worker_metrics_port=get.whole("WORKER_METRICS_PORT", 9400, least=0, most=65_535),
        linger_seconds=get.number("LINGER_SECONDS", 0, least=0),
        log_level=get.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR")),
        log_format=get.choice("LOG_FORMAT", "json", ("json", "text")),
    )


@dataclass(frozen=True)
class _Reader:
    environment: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        return self.environment.get(f"SCALECURVE_{name}", "").strip() or default

    def number(self, name: str, default: float, least: float, most: float = 86_400.0, kind: str = "number") -> float:
        given = self.text(name, str(default))
        try:
            value = float(given)
        except ValueError:
            value = float("nan")
        if not least <= value <= most or (kind == "whole number" and value != int(value)):
            raise SettingsError(f"SCALECURVE_{name}={given!r}: a {kind} from {least:g} to {most:.8g} is wanted")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        return int(self.number(name, default, least, most, "whole number"))

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        given = self.text(name, default)
        for value in allowed:
            if given.lower() == value.lower():
                return value
        raise SettingsError(f"SCALECURVE_{name}={given!r}: one of {', '.join(allowed)} is wanted")

    def pools(self, name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in self.text(name, "").split(","))):
            match = re.fullmatch(r"([a-z0-9][-a-z0-9]{0,39})=([1-9][0-9]{0,4})", part)
            if match is None or match[1] in found:
                raise SettingsError(f"SCALECURVE_{name}: {part!r}: POOL=SLOTS is wanted, once each: default=1,big=4")
            found[match[1]] = int(match[2])
        return found
